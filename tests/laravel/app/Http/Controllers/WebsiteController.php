<?php

namespace App\Http\Controllers;

use App\Http\WebsiteRequest;
use App\Http\WebsiteResource;
use Illuminate\Http\Request;

class WebsiteController
{
    public function index(Request $request)
    {
        $request->validate([
            'search_by' => ['in:domain'],
            'favorite' => env('APP_FILTER') === 'rule' ? ['boolean'] : [],
            'sort_by' => ['in:id,domain'],
            'sort' => ['in:desc,asc'],
            'per_page' => ['integer', 'in:10,25,50,100'],
        ]);
        $query = $request->user()->websites();
        if ($request->filled('search')) {
            $query->where('domain', 'like', '%'.$request->input('search').'%');
        }
        $favorite = $request->input('favorite');
        match (env('APP_FILTER', 'boolean')) {
            'boolean', 'rule' => $request->has('favorite') && $query->where('favorite', $request->boolean('favorite')),
            'where' => $favorite !== null && $query->where('favorite', $favorite),
            'number' => is_numeric($favorite) && $query->where('favorite', $favorite),
            'text' => $favorite !== null && $query->where('favorite', $favorite === 'true'),
        };
        $query->orderBy($request->input('sort_by', 'id'), $request->input('sort', 'desc'));
        $size = (int) (env('APP_SIZE') ?: $request->input('per_page', 100));

        return match (env('APP_LIST', 'paginate')) {
            'paginate' => WebsiteResource::list($query->paginate($size)->withQueryString()),
            'simple' => WebsiteResource::list($query->simplePaginate($size)->withQueryString()),
            'cursor' => WebsiteResource::list($query->cursorPaginate($size)->withQueryString()),
            'all' => WebsiteResource::list($query->get()),
            'short_links' => WebsiteResource::list($query->paginate($size)),
            'paginator' => $query->paginate($size)->withQueryString(),
            'nested' => ['data' => $query->paginate($size)->withQueryString()],
            'beside' => ['success' => true, 'data' => ['websites' => $query->paginate($size)->items()]],
            'named' => ['websites' => $query->get()],
            'array' => $query->get(),
            'numbered' => ['data' => $query->get()->keyBy('id')],
        };
    }

    public function show($id)
    {
        return new WebsiteResource($this->find($id));
    }

    public function store(WebsiteRequest $request)
    {
        $limit = env('APP_PLAN_LIMIT');
        if ($limit && $request->user()->websites()->count() >= 3) {
            abort($limit, 'You have reached the limit of websites of your plan.');
        }
        $website = $request->user()->websites()->create($request->values());

        return $this->written(env('APP_CREATED') === 'as_sent' ? $website : $website->refresh(), 201);
    }

    public function update(WebsiteRequest $request, $id)
    {
        $website = $this->find($id);
        $values = $request->values();
        $update = fn () => $website->update($values);
        env('QUEUE_CONNECTION') === 'database' ? dispatch($update) : $update();

        return $this->written($website, 200);
    }

    public function destroy($id)
    {
        $website = $this->find($id);
        env('APP_DELETES') === 'soft' ? $website->delete() : $website->forceDelete();

        return env('APP_WRITTEN') === 'nothing' ? response()->noContent()
            : ['id' => $website->id, 'object' => 'website', 'deleted' => true];
    }

    private function find($id)
    {
        $website = request()->user()->websites()->find($id);

        return $website ?? abort(env('APP_MISSING', 404), 'This action is unauthorized.');
    }

    private function written($website, $status)
    {
        return match (env('APP_WRITTEN', 'record')) {
            'record' => (new WebsiteResource($website))->response()->setStatusCode($status),
            'accepted' => (new WebsiteResource($website))->response()->setStatusCode(202),
            'wrapped' => response()->json(['success' => true, 'data' => ['website' => $website]], $status),
            'message' => response()->json(['message' => 'Saved.'], $status),
            'nothing' => response()->noContent(),
        };
    }
}
