<?php

use App\Http\Controllers\WebsiteController;
use Illuminate\Http\Request;
use Illuminate\Support\Facades\Route;

Route::apiResource('websites', WebsiteController::class);
Route::get('account', fn (Request $request) => ['data' => $request->user()->only('id', 'name', 'email')]);
