<?php

$names = ['Auth', 'Bus', 'Cache', 'Database', 'Encryption', 'Filesystem', 'Pagination', 'Queue', 'Session',
    'Translation', 'Validation', 'View'];
$options = [PDO::ATTR_STRINGIFY_FETCHES => (bool) env('DB_STRINGIFY', false)];
$sqlite = ['driver' => 'sqlite', 'database' => storage_path('database.sqlite'), 'options' => $options];
$mysql = ['driver' => 'mysql', 'unix_socket' => env('DB_SOCKET'), 'database' => env('DB_DATABASE'), 'username' => 'root',
    'charset' => 'utf8mb4', 'strict' => env('DB_STRICT', true), 'options' => $options];
$jobs = ['driver' => 'database', 'table' => 'jobs', 'queue' => 'default', 'retry_after' => 90];
$log = ['driver' => 'single', 'path' => storage_path('laravel.log')];

return [
    'app' => [
        'env' => 'production', 'debug' => env('APP_DEBUG', false), 'locale' => env('APP_LOCALE', 'en'),
        'key' => str_repeat('k', 32), 'cipher' => 'AES-256-CBC',
        'providers' => [
            ...array_map(fn ($name) => "Illuminate\\$name\\{$name}ServiceProvider", $names),
            Illuminate\Hashing\HashServiceProvider::class,
            Illuminate\Foundation\Providers\FoundationServiceProvider::class,
            Illuminate\Foundation\Providers\ConsoleSupportServiceProvider::class,
            App\Providers\AppServiceProvider::class,
        ],
    ],
    'auth' => [
        'guards' => ['api' => ['driver' => 'token', 'provider' => 'users', 'storage_key' => 'api_key']],
        'providers' => ['users' => ['driver' => 'eloquent', 'model' => App\Models\User::class]],
    ],
    'cache' => ['default' => 'file', 'stores' => ['file' => ['driver' => 'file', 'path' => storage_path('cache')]]],
    'database' => [
        'default' => env('DB_CONNECTION', 'sqlite'), 'migrations' => 'migrations',
        'connections' => ['sqlite' => $sqlite, 'mysql' => $mysql],
    ],
    'hashing' => ['driver' => 'bcrypt'],
    'logging' => ['default' => 'single', 'channels' => ['single' => $log]],
    'queue' => [
        'default' => env('QUEUE_CONNECTION', 'sync'), 'failed' => ['driver' => null],
        'connections' => ['sync' => ['driver' => 'sync'], 'database' => $jobs],
    ],
    'session' => ['driver' => 'array', 'lifetime' => 120, 'cookie' => 'session', 'path' => '/', 'domain' => null,
        'secure' => false, 'expire_on_close' => false, 'lottery' => [0, 100]],
    'view' => ['paths' => [], 'compiled' => storage_path('views')],
];
