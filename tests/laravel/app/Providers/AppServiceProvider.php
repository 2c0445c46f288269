<?php

namespace App\Providers;

use App\Http\Controllers\WebsiteController;
use App\Http\WebsiteResource;
use Illuminate\Cache\RateLimiting\Limit;
use Illuminate\Foundation\Support\Providers\RouteServiceProvider;
use Illuminate\Support\Facades\RateLimiter;
use Illuminate\Support\Facades\Route;

class AppServiceProvider extends RouteServiceProvider
{
    public function boot()
    {
        WebsiteResource::wrap(env('APP_WRAP', 'data') ?: null);
        $limit = Limit::perMinute(env('APP_THROTTLE', 1000000));
        env('APP_LIMITED') && $limit->response(fn () => response()->json(['error' => ['message' => 'Slow down.']], 429));
        RateLimiter::for('api', fn ($request) => $limit->by($request->user()->id));
        $cached = env('APP_ETAG') ? ['cache.headers:private;max_age=60;etag'] : [];
        $this->routes(function () use ($cached) {
            Route::get('login', fn () => 'Log in')->name('login');
            Route::prefix('api/v1')->middleware(['api', 'auth:api', ...$cached, ...env('APP_CSRF') ? ['web'] : []])->group(function () {
                Route::apiResource('websites', WebsiteController::class);
                Route::get('account', fn () => ['data' => request()->user()->only('id', 'name', 'email')]);
            });
        });
    }
}
