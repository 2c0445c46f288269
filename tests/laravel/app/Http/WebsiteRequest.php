<?php

namespace App\Http;

use Illuminate\Foundation\Http\FormRequest;
use Illuminate\Validation\Rule;

class WebsiteRequest extends FormRequest
{
    public function rules()
    {
        $rules = [
            'privacy' => ['integer', 'in:0,1,2'],
            'password' => ['nullable', 'string', 'max:255'],
            'email' => ['integer', 'in:0,1'],
            'exclude_bots' => ['integer', 'in:0,1'],
            'exclude_params' => ['nullable', 'string'],
            'exclude_ips' => ['nullable', 'string'],
        ];
        if (! $this->isMethod('post')) {
            return $rules + ['favorite' => match (env('APP_FAVORITE', 'boolean')) {
                'boolean' => ['boolean'],
                'text' => ['in:true,false'],
                'cast' => ['nullable'], // no rule: (bool) "false" is true
            }];
        }
        $label = '[^\W_](?:[\w-]{0,61}[^\W_])?';
        $unique = Rule::unique('websites')->where('user_id', $this->user()->id);

        return $rules + ['domain' => ['required', 'string', 'max:255', "regex:/^(?:$label\.)*$label\.?$/uD", $unique]];
    }

    protected function prepareForValidation()
    {
        env('APP_DOMAIN') === 'lower' && $this->merge(['domain' => strtolower($this->input('domain'))]);
    }

    public function values()
    {
        $values = env('APP_EMPTY') === 'ignored' ? array_filter($this->validated(), 'filled') : $this->validated();
        if (env('APP_FAVORITE') === 'text' && isset($values['favorite'])) {
            $values['favorite'] = $values['favorite'] === 'true';
        }

        return $values + (env('APP_ABSENT') === 'false' ? ['email' => 0, 'exclude_bots' => 0, 'favorite' => false] : []);
    }
}
