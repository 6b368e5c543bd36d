# SPDX-License-Identifier: Apache-2.0
"""The services' configuration files, and a clouds.yaml for their users."""

from __future__ import annotations

import shutil

from lab import place

AUTH = """\
auth_type = password
auth_url = {keystone}/v3
username = {user}
password = {password}
project_name = service
user_domain_name = Default
project_domain_name = Default
region_name = {region}
"""

TOKENS = """\
[keystone_authtoken]
www_authenticate_uri = {keystone}/v3
service_token_roles_required = True
service_type = {kind}
interface = internal
{auth}"""

KEYSTONE = """\
[DEFAULT]
log_file = {folder}/log/keystone.log
max_token_size = 512
[database]
connection = sqlite:///{folder}/db/keystone.sqlite
sqlite_synchronous = False
[token]
provider = fernet
expiration = 86400
[fernet_tokens]
key_repository = {folder}/etc/keystone/fernet-keys
[credential]
key_repository = {folder}/etc/keystone/credential-keys
[identity]
password_hash_rounds = 4
[cache]
enabled = True
backend = oslo_cache.dict
"""

# devstack and the deployment tools set the same owner for incomplete consumers.
PLACEMENT = """\
[DEFAULT]
log_file = {folder}/log/placement.log
[api]
auth_strategy = keystone
[placement]
incomplete_consumer_project_id = 00000000-0000-0000-0000-000000000000
incomplete_consumer_user_id = 00000000-0000-0000-0000-000000000000
[placement_database]
connection = sqlite:///{folder}/db/placement.sqlite
sqlite_synchronous = False
{tokens}"""

# The lab has no message queue: casts are lost, and calls time out after one second. The compute
# services are database rows that never report; they count as up for ten years.
NOVA = """\
[DEFAULT]
log_file = {folder}/log/nova.log
state_path = {folder}/state
my_ip = 127.0.0.1
host = controller
transport_url = fake:/
rpc_response_timeout = 1
service_down_time = 315360000
[api]
auth_strategy = keystone
max_limit = 1000
[api_database]
connection = sqlite:///{folder}/db/nova_api.sqlite
sqlite_synchronous = False
[database]
connection = sqlite:///{folder}/db/nova_cell1.sqlite
sqlite_synchronous = False
[oslo_concurrency]
lock_path = {folder}/state
[cinder]
os_region_name = {region}
[glance]
api_servers = {neutron}/image
[placement]
{placement_auth}
[neutron]
{auth}
[service_user]
send_service_user_token = false
{auth}
{tokens}"""

CLOUD = """\
  {name}:
    region_name: {region}
    identity_api_version: 3
    auth:
      auth_url: {keystone}/v3
      username: {user}
      password: {password}
      user_domain_name: Default
      {scope}
"""

IN_PROJECT = "project_name: {}\n      project_domain_name: Default"

#: The first part of a cloud's name selects its placement endpoint...
REGIONS = {"lab": place.REGION, "embedded": place.EMBEDDED_REGION, "empty": place.EMPTY_REGION}
#: ...and the last part its identity: (user, scope).
IDENTITIES = {
    "": ("admin", IN_PROJECT.format("admin")),
    "-system": ("admin", "system_scope: all"),
    "-domain": ("admin", "domain_name: Default"),
    "-service": ("robot", IN_PROJECT.format("service")),
    "-member": ("alice", IN_PROJECT.format("acme")),
    "-reader": ("rita", IN_PROJECT.format("acme")),
}


def configure(lab: place.Place, service: str) -> None:
    """Write the configuration of one service."""
    if service == "keystone":
        lab.write("etc/keystone/keystone.conf", KEYSTONE.format(**_facts(lab)))
        lab.write("etc/embedded.conf", tokens(lab, "placement", "placement"))
        lab.write("clouds.yaml", clouds(lab))
    elif service == "placement":
        text = PLACEMENT.format(**_facts(lab), tokens=tokens(lab, "placement", "placement"))
        lab.write("etc/placement/placement.conf", text)
    elif service == "nova":
        text = NOVA.format(
            **_facts(lab),
            placement_auth=_auth(lab, "placement"),
            auth=_auth(lab, "nova"),
            tokens=tokens(lab, "nova", "compute"),
        )
        lab.write("etc/nova/nova.conf", text)
        shutil.copy(lab.path("venv/etc/nova/api-paste.ini"), lab.path("etc/nova"))
    elif not lab.path("neutron.json").exists():
        lab.write("neutron.json", '{"ports": {}}')


def tokens(lab: place.Place, user: str, kind: str) -> str:
    """The section that a service of this kind needs to validate tokens."""
    return TOKENS.format(**_facts(lab), kind=kind, auth=_auth(lab, user))


def clouds(lab: place.Place) -> str:
    """A clouds.yaml with a cloud for each of REGIONS and IDENTITIES, such as ``lab-member``."""
    facts = {"keystone": lab.url("keystone"), "password": place.PASSWORD}
    entries = [
        CLOUD.format(**facts, name=prefix + identity, region=region, user=user, scope=scope)
        for prefix, region in REGIONS.items()
        for identity, (user, scope) in IDENTITIES.items()
    ]
    return "clouds:\n" + "".join(entries)


def _auth(lab: place.Place, user: str) -> str:
    return AUTH.format(**_facts(lab), user=user, password=place.PASSWORD)


def _facts(lab: place.Place) -> dict[str, str]:
    return {
        "folder": str(lab.folder),
        "keystone": lab.url("keystone"),
        "neutron": lab.url("neutron"),
        "region": place.REGION,
    }
