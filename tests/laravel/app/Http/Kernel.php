<?php

namespace App\Http;

use Illuminate\Foundation\Http\Kernel as HttpKernel;
use Illuminate\Foundation\Http\Middleware;

class Kernel extends HttpKernel
{
    protected $middleware = [
        Middleware\PreventRequestsDuringMaintenance::class,
        Middleware\TrimStrings::class,
        Middleware\ConvertEmptyStringsToNull::class,
    ];

    protected $middlewareGroups = [
        'web' => [\Illuminate\Session\Middleware\StartSession::class, Middleware\VerifyCsrfToken::class],
        'api' => ['throttle:api', \Illuminate\Routing\Middleware\SubstituteBindings::class],
    ];

    protected $routeMiddleware = [
        'auth' => \Illuminate\Auth\Middleware\Authenticate::class,
        'cache.headers' => \Illuminate\Http\Middleware\SetCacheHeaders::class,
        'throttle' => \Illuminate\Routing\Middleware\ThrottleRequests::class,
    ];

    public function bootstrap()
    {
        parent::bootstrap();
        if (env('APP_CLEANING') === 'none') {
            $this->middleware = [];
        }
        $to = env('APP_REDIRECT'); // each request to the same path on this server, if any
        $to && $this->prependMiddleware(fn ($request) => redirect()->away($to.$request->getRequestUri(), 301));
    }
}
