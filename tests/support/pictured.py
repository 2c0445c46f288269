# SPDX-License-Identifier: Apache-2.0
"""The websites file of the recording docs/images/approve_and_apply.gif."""

from __future__ import annotations

#: Changes of two websites, two new websites, and a website that has the setting already.
WEBSITES_FILE = """\
websites:
  www.new-harbour.example: {privacy: private, exclude_ips: [203.0.113.7]}
  shop.new-harbour.example: {privacy: public, email: true}
  sunny-garden.example.org: {privacy: private}
  mellow-drum.example.com: {exclude_ips: [198.51.100.175, 203.0.113.7]}
  rapid-falcon.example.org: {email: false} # is so already
"""
