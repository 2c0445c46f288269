<?php

return [
    'boolean' => ':attribute muss entweder true oder false sein.',
    'unique' => ':attribute ist bereits vergeben.',
];
