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
        'throttle' => \Illuminate\Routing\Middleware\ThrottleRequests::class,
    ];

    public function bootstrap()
    {
        parent::bootstrap();
        if (env('APP_CLEANING') === 'none') {
            $this->middleware = [];
        }
        if (env('APP_REDIRECT') === 'https') {
            $this->prependMiddleware(fn ($request) => redirect()->secure($request->path(), 301));
        } elseif (env('APP_REDIRECT') === 'slash') {
            $this->prependMiddleware(fn ($request, $next) => str_ends_with($request->getPathInfo(), '/')
                ? $next($request) : redirect()->to($request->root().$request->getPathInfo().'/', 301));
        }
    }
}
