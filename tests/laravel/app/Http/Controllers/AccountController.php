<?php

namespace App\Http\Controllers;

use Illuminate\Http\Request;

class AccountController
{
    public function __invoke(Request $request)
    {
        return ['data' => $request->user()->only('id', 'name', 'email')];
    }
}
