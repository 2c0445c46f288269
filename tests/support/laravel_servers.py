# SPDX-License-Identifier: Apache-2.0
"""The Laravel application of tests/laravel in production: behind nginx with PHP-FPM, and on MariaDB."""

from __future__ import annotations

import functools
import getpass
import socket
from pathlib import Path

from laravel_application import APPLICATION, PHP_OPTIONS, LaravelApplication

INSTALL_NGINX = "apt-get install nginx-light php-fpm"
INSTALL_MARIADB = "apt-get install mariadb-server-core php-mysql"

_FPM = """\
[global]
error_log = {storage}/fpm.log
[www]
user = {user}
listen = {storage}/fpm.sock
pm = static
pm.max_children = 4
clear_env = no
"""
# As the documentation of Laravel recommends.
_NGINX = """\
daemon off;
user {user};
pid {storage}/nginx.pid;
error_log {storage}/nginx.log;
events {{}}
http {{
    access_log off;
    client_body_temp_path {storage}/body;
    fastcgi_temp_path {storage}/fastcgi;
    proxy_temp_path {storage}/proxy;
    uwsgi_temp_path {storage}/uwsgi;
    scgi_temp_path {storage}/scgi;
    server {{
        listen 127.0.0.1:{port};
        root {application}/public;
        location / {{
            try_files $uri $uri/ /index.php?$query_string;
        }}
        location ~ \\.php$ {{
            include /etc/nginx/fastcgi_params;
            fastcgi_param SCRIPT_FILENAME $realpath_root$fastcgi_script_name;
            fastcgi_pass unix:{storage}/fpm.sock;
        }}
    }}
}}
"""


def fpm_program() -> str | None:
    """Return the program of PHP-FPM, whose name contains a version."""
    found = sorted(Path("/usr/sbin").glob("php-fpm*"))
    return str(found[-1]) if found else None


def _connect(address: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(str(address))
    except OSError:
        connection.close()
        raise
    return connection


class NginxApplication(LaravelApplication):
    """The application behind nginx, in the processes of PHP-FPM."""

    def _serve(self) -> None:
        values = {
            "storage": self._storage,
            "user": getpass.getuser(),
            "port": self._port,
            "application": APPLICATION,
        }
        fpm, nginx = self._storage / "fpm.conf", self._storage / "nginx.conf"
        fpm.write_text(_FPM.format(**values))
        nginx.write_text(_NGINX.format(**values))
        self._run(str(fpm_program()), "--nodaemonize", "--allow-to-run-as-root", f"--fpm-config={fpm}", *PHP_OPTIONS)
        self._wait_for(functools.partial(_connect, self._storage / "fpm.sock"))
        self._run("nginx", "-c", str(nginx), "-e", f"{self._storage}/nginx.log")
        self._wait_for(self._connect)


class MariadbApplication(LaravelApplication):
    """The application on a MariaDB of its own."""

    def start(self) -> None:
        data, address = self._storage / "mariadb", self._storage / "mariadb.sock"
        (data / "laravel").mkdir(parents=True)  # a database
        # Without users, it needs none of the system tables, which another package would create.
        self._run(
            "mariadbd", "--no-defaults", "--skip-grant-tables", "--skip-networking", f"--user={getpass.getuser()}",
            f"--datadir={data}", f"--socket={address}",
        )  # fmt: skip
        self._wait_for(functools.partial(_connect, address))
        self._environment |= {"DB_CONNECTION": "mysql", "DB_SOCKET": str(address), "DB_DATABASE": "laravel"}
        super().start()
