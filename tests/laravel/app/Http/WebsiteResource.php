<?php

namespace App\Http;

use Illuminate\Http\Resources\Json\JsonResource;

class WebsiteResource extends JsonResource
{
    public function toArray($request)
    {
        $record = parent::toArray($request);
        foreach (array_intersect(['exclude_params', 'exclude_ips'], array_keys($record)) as $name) {
            $lines = preg_split('/\R/', $record[$name] ?? '', -1, PREG_SPLIT_NO_EMPTY);
            $record[$name] = match (env('APP_LINES')) {
                'array' => $lines,
                'objects' => array_map(fn ($line) => ['value' => $line], $lines),
                default => $record[$name],
            };
        }
        $privacy = ['public', 'private', 'password'][$record['privacy'] ?? 0];
        $record = match (env('APP_RECORD')) {
            'labels' => array_merge($record, ['privacy' => $privacy]),
            'objects' => array_merge($record, ['privacy' => ['value' => $record['privacy'], 'label' => $privacy]]),
            'people' => array_merge($record, ['created_at' => $this->created_at->diffForHumans(), 'has_password' => true]),
            'short' => $request->is('*/websites') ? array_intersect_key($record, ['id' => 1, 'domain' => 1]) : $record,
            default => $record,
        };

        return env('APP_NULLS') === 'omitted' ? array_filter($record, fn ($value) => $value !== null) : $record;
    }

    public function with($request)
    {
        return env('APP_BESIDE') ? ['status' => 200, 'message' => 'OK'] : [];
    }

    public static function list($websites)
    {
        return self::collection($websites)->additional((new self(null))->with(null));
    }
}
