<?php

require '/usr/share/php/Illuminate/autoload.php';

spl_autoload_register(function ($class) {
    if (str_starts_with($class, 'App\\')) {
        require __DIR__.'/../app/'.str_replace('\\', '/', substr($class, 4)).'.php';
    }
});

$app = new Illuminate\Foundation\Application(dirname(__DIR__));
$app->useStoragePath(getenv('APP_STORAGE'));
$app->singleton(Illuminate\Contracts\Http\Kernel::class, App\Http\Kernel::class);
$app->singleton(Illuminate\Contracts\Console\Kernel::class, Illuminate\Foundation\Console\Kernel::class);
$app->singleton(Illuminate\Contracts\Debug\ExceptionHandler::class, Illuminate\Foundation\Exceptions\Handler::class);

return $app;
