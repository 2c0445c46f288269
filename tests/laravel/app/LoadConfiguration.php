<?php

namespace App;

use Illuminate\Config\Repository;

/** Loads one file in place of the folder config of a new application. */
class LoadConfiguration
{
    public function bootstrap($app)
    {
        $app->instance('config', new Repository(require $app->bootstrapPath('config.php')));
        $app->detectEnvironment(fn () => 'production');
        mb_internal_encoding('UTF-8');
    }
}
