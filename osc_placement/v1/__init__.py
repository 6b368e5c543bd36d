"""The commands of ``openstack``: one module per noun.

The only place with argparse and cliff. Commands parse, call the client or one workflow,
and hand back columns and rows; they never print. OpenStackClient loads every command of
every plugin for every command line, so nothing here imports at module level what only a
running command needs.
"""
