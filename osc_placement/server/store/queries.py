"""The SQL of an unfinished snapshot.

``listed`` is the last listing of providers, ``reading`` what was read of each provider, ``held``
its allocations, and ``owner`` what was read of each consumer.
"""

from __future__ import annotations

#: Project and user of a consumer whose owner was not read.
UNKNOWN_OWNER = "unknown"

TABLES = ("listed", "reading", "held", "owner")

SCHEMA = (
    "CREATE TABLE IF NOT EXISTS listed (position INTEGER PRIMARY KEY, uuid TEXT UNIQUE,"
    " name TEXT, generation INTEGER, root_uuid TEXT, parent_uuid TEXT)",
    "CREATE TABLE IF NOT EXISTS reading (uuid TEXT PRIMARY KEY, generation INTEGER,"
    " inventories TEXT, traits TEXT, aggregates TEXT, read_at REAL)",
    "CREATE TABLE IF NOT EXISTS held (provider_uuid TEXT, consumer_uuid TEXT,"
    " generation INTEGER, resources TEXT, PRIMARY KEY (provider_uuid, consumer_uuid))"
    " WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS held_by ON held (consumer_uuid)",
    "CREATE TABLE IF NOT EXISTS owner (uuid TEXT PRIMARY KEY, generation INTEGER,"
    " project_id TEXT, user_id TEXT, consumer_type TEXT)",
)

#: Fill the readings from a finished state: the file is refreshed.
RESTAGE = (
    "INSERT INTO reading SELECT uuid, generation, inventories, traits, aggregates, updated_at"
    " FROM provider",
    "INSERT INTO held SELECT item.key, consumer.uuid, consumer.generation, item.value"
    " FROM consumer, json_each(consumer.allocations) AS item",
    "INSERT INTO owner SELECT uuid, generation, project_id, user_id, consumer_type FROM consumer",
)

#: Consumers whose owner is missing, or was read at another generation than an allocation.
OWNERS_TO_READ = """
    SELECT held.consumer_uuid FROM held LEFT JOIN owner ON owner.uuid = held.consumer_uuid
    GROUP BY held.consumer_uuid
    HAVING owner.uuid IS NULL OR SUM(held.generation IS NOT owner.generation)
"""

#: Providers with an allocation that was read at another generation than its consumer.
TORN_FROM_OWNERS = """
    SELECT DISTINCT held.provider_uuid FROM held JOIN owner ON owner.uuid = held.consumer_uuid
    WHERE held.generation IS NOT owner.generation
"""
TORN = """
    SELECT DISTINCT provider_uuid FROM held WHERE consumer_uuid IN (
        SELECT consumer_uuid FROM held GROUP BY consumer_uuid
        HAVING COUNT(DISTINCT generation) > 1)
"""
TORN_CONSUMERS = """
    SELECT held.consumer_uuid FROM held LEFT JOIN owner ON owner.uuid = held.consumer_uuid
    GROUP BY held.consumer_uuid
    HAVING COUNT(DISTINCT held.generation) > 1
        OR (owner.uuid IS NOT NULL AND SUM(held.generation IS NOT owner.generation))
"""

OUTDATED = """
    SELECT listed.uuid FROM listed LEFT JOIN reading USING (uuid)
    WHERE reading.generation IS NOT listed.generation ORDER BY listed.position
"""

#: Providers without a reading, and providers whose parent or root is not in the file.
INCOMPLETE = """
    SELECT uuid FROM listed WHERE uuid NOT IN (SELECT uuid FROM reading)
        OR root_uuid NOT IN (SELECT uuid FROM listed)
        OR parent_uuid NOT IN (SELECT uuid FROM listed)
"""

IMPOSSIBLE = """
    SELECT held.provider_uuid, held.consumer_uuid, item.key
    FROM held JOIN reading ON reading.uuid = held.provider_uuid,
        json_each(held.resources) AS item
    WHERE NOT EXISTS (SELECT 1 FROM json_each(reading.inventories) AS known
        WHERE known.key = item.key)
"""

BUILD = (
    "DELETE FROM provider",
    "DELETE FROM consumer",
    "INSERT INTO provider (uuid, name, generation, root_uuid, parent_uuid, inventories, traits,"
    " aggregates, updated_at) SELECT uuid, name, reading.generation, root_uuid, parent_uuid,"
    " inventories, traits, aggregates, read_at FROM listed JOIN reading USING (uuid)"
    " ORDER BY position",
    "INSERT INTO consumer (uuid, generation, project_id, user_id, consumer_type, allocations,"
    " updated_at)"
    " SELECT consumer_uuid, COALESCE(owner.generation, MAX(held.generation)),"
    " COALESCE(project_id, :unknown), COALESCE(user_id, :unknown),"
    " consumer_type, json_group_object(provider_uuid, json(resources)), MAX(read_at)"
    " FROM held JOIN listed ON listed.uuid = held.provider_uuid"
    " JOIN reading ON reading.uuid = held.provider_uuid"
    " LEFT JOIN owner ON owner.uuid = held.consumer_uuid"
    " GROUP BY consumer_uuid ORDER BY MIN(position), consumer_uuid",
)

USAGES = """
    SELECT owner.project_id, item.key, SUM(item.value)
    FROM owner JOIN held ON held.consumer_uuid = owner.uuid, json_each(held.resources) AS item
    GROUP BY 1, 2
"""
CONSUMER_COUNTS = """
    SELECT owner.project_id, COUNT(DISTINCT held.consumer_uuid)
    FROM owner JOIN held ON held.consumer_uuid = owner.uuid GROUP BY 1
"""
PROVIDERS_OF_PROJECT = """
    SELECT DISTINCT held.provider_uuid FROM owner JOIN held ON held.consumer_uuid = owner.uuid
    WHERE owner.project_id = ?
"""
OWNERS_ON = """
    SELECT owner.uuid, owner.project_id FROM held JOIN owner ON owner.uuid = held.consumer_uuid
    WHERE held.provider_uuid = ? AND owner.project_id IS NOT NULL
"""
