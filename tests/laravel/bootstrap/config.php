<?php

use Illuminate\Foundation\Providers;

$options = [PDO::ATTR_STRINGIFY_FETCHES => (bool) env('DB_STRINGIFY', false)];
$sqlite = ['driver' => 'sqlite', 'database' => storage_path('database.sqlite'), 'options' => $options];
$mysql = ['driver' => 'mysql', 'unix_socket' => env('DB_SOCKET'), 'database' => env('DB_DATABASE'), 'username' => 'root',
    'charset' => 'utf8mb4', 'strict' => env('DB_STRICT', true), 'options' => $options];

return [
    'app' => [
        'env' => 'production',
        'debug' => env('APP_DEBUG', false),
        'locale' => 'en',
        'key' => str_repeat('k', 32),
        'cipher' => 'AES-256-CBC',
        'providers' => [
            Illuminate\Auth\AuthServiceProvider::class, Illuminate\Bus\BusServiceProvider::class,
            Illuminate\Cache\CacheServiceProvider::class, Illuminate\Cookie\CookieServiceProvider::class,
            Illuminate\Database\DatabaseServiceProvider::class, Illuminate\Encryption\EncryptionServiceProvider::class,
            Illuminate\Filesystem\FilesystemServiceProvider::class, Providers\ConsoleSupportServiceProvider::class,
            Providers\FoundationServiceProvider::class, Illuminate\Hashing\HashServiceProvider::class,
            Illuminate\Pagination\PaginationServiceProvider::class, Illuminate\Queue\QueueServiceProvider::class,
            Illuminate\Session\SessionServiceProvider::class, Illuminate\Translation\TranslationServiceProvider::class,
            Illuminate\Validation\ValidationServiceProvider::class, Illuminate\View\ViewServiceProvider::class,
            App\Providers\AppServiceProvider::class,
        ],
    ],
    'auth' => [
        'guards' => ['api' => ['driver' => 'token', 'provider' => 'users', 'storage_key' => 'api_key']],
        'providers' => ['users' => ['driver' => 'eloquent', 'model' => App\Models\User::class]],
    ],
    'cache' => ['default' => 'file', 'stores' => ['file' => ['driver' => 'file', 'path' => storage_path('cache')]]],
    'database' => [
        'default' => env('DB_CONNECTION', 'sqlite'),
        'connections' => ['sqlite' => $sqlite, 'mysql' => $mysql],
        'migrations' => 'migrations',
    ],
    'hashing' => ['driver' => 'bcrypt'],
    'logging' => ['default' => 'single', 'channels' => ['single' => ['driver' => 'single', 'path' => storage_path('laravel.log')]]],
    'queue' => [
        'default' => env('QUEUE_CONNECTION', 'sync'),
        'connections' => [
            'sync' => ['driver' => 'sync'],
            'database' => ['driver' => 'database', 'table' => 'jobs', 'queue' => 'default', 'retry_after' => 90],
        ],
        'failed' => ['driver' => null],
    ],
    'session' => ['driver' => 'array', 'lifetime' => 120, 'cookie' => 'session', 'path' => '/', 'lottery' => [0, 100]],
    'view' => ['paths' => [], 'compiled' => storage_path('views')],
];
