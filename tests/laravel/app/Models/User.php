<?php

namespace App\Models;

class User extends \Illuminate\Foundation\Auth\User
{
    public function websites()
    {
        return $this->hasMany(Website::class);
    }
}
