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
        $flag = env('APP_CASTS') === 'booleans' ? 'boolean' : 'integer';
        $casts = ['privacy' => 'integer', 'email' => $flag, 'exclude_bots' => $flag, 'favorite' => 'boolean'];

        return ['deleted_at' => 'datetime'] + (env('APP_CASTS') === 'none' ? [] : $casts);
    }

    protected static function booted()
    {
        env('APP_IDS') === 'uuid' && static::creating(function ($website) {
            $website->incrementing = false;
            $website->id = (string) Str::orderedUuid();
        });
        static::saving(function ($website) {
            if ($website->privacy != 2) {
                $website->password = $website->getOriginal('password');
            }
            foreach (array_filter($website->only('exclude_params', 'exclude_ips')) as $name => $text) {
                $website->$name = match (env('APP_LINES')) {
                    'cut' => mb_substr($text, 0, 255), // as VARCHAR(255) without strict mode; SQLite has no limits
                    'crlf' => preg_replace('/\R/', "\r\n", $text),
                    default => $text,
                };
            }
        });
    }
}
