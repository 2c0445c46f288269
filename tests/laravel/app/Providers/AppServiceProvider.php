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
        $limit = env('APP_THROTTLE', 1000000);
        RateLimiter::for('api', fn ($request) => Limit::perMinute($limit)->by($request->user()->id));
        $this->routes(function () {
            Route::get('login', fn () => 'Log in')->name('login');
            Route::prefix('api/v1')->middleware(['api', 'auth:api', ...env('APP_CSRF') ? ['web'] : []])->group(function () {
                Route::apiResource('websites', WebsiteController::class);
                Route::get('account', fn () => ['data' => request()->user()->only('id', 'name', 'email')]);
            });
        });
    }
}
