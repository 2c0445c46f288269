<?php

use App\Models\User;
use Illuminate\Database\Migrations\Migration;
use Illuminate\Database\Schema\Blueprint;
use Illuminate\Support\Facades\Schema;

class CreateTables extends Migration
{
    public function up()
    {
        Schema::create('users', function (Blueprint $table) {
            $table->id();
            $table->string('name');
            $table->string('email')->unique();
            $table->string('api_key')->unique();
            $table->timestamps();
        });
        Schema::create('websites', function (Blueprint $table) {
            env('APP_IDS') === 'uuid' ? $table->uuid('id')->primary() : $table->id();
            $table->foreignId('user_id');
            $table->string('domain');
            $table->unsignedTinyInteger('privacy')->default(0);
            $table->string('password')->nullable();
            $table->unsignedTinyInteger('email')->default(0);
            $table->unsignedTinyInteger('exclude_bots')->default(1);
            $table->text('exclude_params')->nullable();
            $table->text('exclude_ips')->nullable();
            $table->boolean('favorite')->default(false);
            $table->timestamps();
            $table->softDeletes();
        });
        Schema::create('jobs', function (Blueprint $table) {
            $table->id();
            $table->string('queue')->index();
            $table->longText('payload');
            foreach (['attempts', 'reserved_at', 'available_at', 'created_at'] as $name) {
                $table->unsignedInteger($name)->nullable();
            }
        });
        $user = User::forceCreate([
            'name' => 'Sandbox Account', 'email' => 'account@example.com', 'api_key' => env('APP_API_KEY'),
        ]);
        for ($number = 1; $number <= env('APP_WEBSITES', 0); $number++) {
            $user->websites()->create(['domain' => "site-$number.example"]);
        }
    }
}
