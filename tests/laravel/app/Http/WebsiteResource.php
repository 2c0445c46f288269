<?php

namespace App\Http;

use Illuminate\Http\Resources\Json\JsonResource;

class WebsiteResource extends JsonResource
{
    public function toArray($request)
    {
        $record = parent::toArray($request);
        foreach (env('APP_LINES') === 'array' ? ['exclude_params', 'exclude_ips'] : [] as $name) {
            $record[$name] = preg_split('/\R/', $record[$name] ?? '', -1, PREG_SPLIT_NO_EMPTY);
        }

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
