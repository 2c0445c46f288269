<?php

namespace App\Models;

use Illuminate\Database\Eloquent\Model;
use Illuminate\Database\Eloquent\SoftDeletes;
use Illuminate\Support\Str;

class Website extends Model
{
    use SoftDeletes;

    protected $guarded = [];

    protected $hidden = ['user_id', 'password', 'updated_at', 'deleted_at'];

    public function getCasts()
    {
        return match (env('APP_CASTS', 'all')) {
            'none' => [],
            'booleans' => ['privacy' => 'integer', 'email' => 'boolean', 'exclude_bots' => 'boolean', 'favorite' => 'boolean'],
            'all' => ['privacy' => 'integer', 'email' => 'integer', 'exclude_bots' => 'integer', 'favorite' => 'boolean'],
        } + ['deleted_at' => 'datetime'];
    }

    public function getIncrementing()
    {
        return env('APP_IDS') !== 'uuid';
    }

    protected static function booted()
    {
        static::creating(function ($website) {
            if (! $website->getIncrementing()) {
                $website->id = (string) Str::orderedUuid();
            }
        });
        static::saving(function ($website) {
            if ($website->privacy != 2) {
                $website->password = $website->getOriginal('password');
            }
        });
    }

    public function setExcludeParamsAttribute($text)
    {
        $this->attributes['exclude_params'] = $this->stored($text);
    }

    public function setExcludeIpsAttribute($text)
    {
        $this->attributes['exclude_ips'] = $this->stored($text);
    }

    private function stored($text)
    {
        return match ($text === null ? null : env('APP_LINES')) {
            'cut' => mb_substr($text, 0, 255), // as VARCHAR(255) without strict mode; SQLite has no limits
            'crlf' => preg_replace('/\R/', "\r\n", $text),
            default => $text,
        };
    }
}
