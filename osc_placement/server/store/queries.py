"""The SQL of an unfinished snapshot.

``listed`` is the last listing of providers, ``reading`` what was read of each provider, ``held``
its allocations. ``owner`` is what was read of each consumer by itself, and ``share`` its
allocations then: a consumer is whole if it has the same rows in ``held`` and ``share``.
"""

from __future__ import annotations

#: Project and user of a consumer whose owner was not read.
UNKNOWN_OWNER = "unknown"

TABLES = ("listed", "reading", "held", "owner", "share")

SCHEMA = (
    "CREATE TABLE listed (position INTEGER PRIMARY KEY, uuid TEXT UNIQUE,"
    " name TEXT, generation INTEGER, root_uuid TEXT, parent_uuid TEXT)",
    "CREATE TABLE reading (uuid TEXT PRIMARY KEY, generation INTEGER,"
    " inventories TEXT, traits TEXT, aggregates TEXT, modified REAL, outdated INTEGER)",
    "CREATE TABLE held (provider_uuid TEXT, consumer_uuid TEXT,"
    " generation INTEGER, resources TEXT, PRIMARY KEY (provider_uuid, consumer_uuid))"
    " WITHOUT ROWID",
    "CREATE INDEX held_by ON held (consumer_uuid)",
    "CREATE TABLE owner (uuid TEXT PRIMARY KEY, generation INTEGER,"
    " project_id TEXT, user_id TEXT, consumer_type TEXT)",
    "CREATE TABLE share (provider_uuid TEXT, consumer_uuid TEXT,"
    " generation INTEGER, resources TEXT, PRIMARY KEY (consumer_uuid, provider_uuid))"
    " WITHOUT ROWID",
)

#: The statements of the tables that a file has.
EXISTING = """
    SELECT sql FROM sqlite_master
    WHERE tbl_name IN ('listed', 'reading', 'held', 'owner', 'share') AND sql IS NOT NULL
"""

#: Fill the readings from a finished state: the file is refreshed. What its notes name is read
#: again, and so are all consumers if it has no owners.
RESTAGE = (
    "INSERT INTO reading SELECT uuid, generation, inventories, traits, aggregates, updated_at, 0"
    " FROM provider WHERE uuid NOT IN (SELECT uuid FROM snapshot_note)",
    "INSERT INTO held SELECT item.key, consumer.uuid, consumer.generation, item.value"
    " FROM consumer, json_each(consumer.allocations) AS item"
    " WHERE item.key IN (SELECT uuid FROM reading)",
    "INSERT INTO owner SELECT uuid, generation, project_id, user_id, consumer_type FROM consumer"
    " WHERE :owners AND uuid NOT IN (SELECT uuid FROM snapshot_note)",
    "INSERT INTO share SELECT item.key, consumer.uuid, consumer.generation, item.value"
    " FROM consumer, json_each(consumer.allocations) AS item"
    " WHERE consumer.uuid IN (SELECT uuid FROM owner)",
)

#: Consumers whose owner is missing, or was read at another generation than an allocation.
OWNERS_TO_READ = """
    SELECT DISTINCT held.consumer_uuid FROM held LEFT JOIN owner ON owner.uuid = held.consumer_uuid
    WHERE owner.uuid IS NULL OR held.generation IS NOT owner.generation
"""

#: Consumers whose allocations differ between their providers and their own reading.
TORN = """
    SELECT consumer_uuid FROM (SELECT * FROM held EXCEPT
        SELECT provider_uuid, consumer_uuid, generation, resources FROM share)
    UNION
    SELECT consumer_uuid FROM (SELECT * FROM share EXCEPT
        SELECT provider_uuid, consumer_uuid, generation, resources FROM held)
"""
#: The same without owners: consumers with allocations of several generations.
TORN_WITHOUT_OWNERS = """
    SELECT consumer_uuid FROM held GROUP BY consumer_uuid HAVING COUNT(DISTINCT generation) > 1
"""
#: Of consumers that at least one provider still shows.
PROVIDERS_OF_CONSUMERS = """
    SELECT provider_uuid FROM held WHERE consumer_uuid IN (SELECT value FROM json_each(:uuids))
    UNION
    SELECT provider_uuid FROM share WHERE consumer_uuid IN (SELECT value FROM json_each(:uuids))
        AND consumer_uuid IN (SELECT consumer_uuid FROM held)
"""
FORGET_OWNERS = (
    "DELETE FROM owner WHERE uuid IN (SELECT value FROM json_each(:uuids))",
    "DELETE FROM share WHERE consumer_uuid IN (SELECT value FROM json_each(:uuids))",
)

OUTDATED = """
    SELECT listed.uuid FROM listed LEFT JOIN reading USING (uuid)
    WHERE reading.generation IS NOT listed.generation OR reading.outdated
    ORDER BY listed.position
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
    " inventories, traits, aggregates, COALESCE(modified, :now)"
    " FROM listed JOIN reading USING (uuid)"
    " ORDER BY position",
    "INSERT INTO consumer (uuid, generation, project_id, user_id, consumer_type, allocations,"
    " updated_at)"
    " SELECT consumer_uuid, COALESCE(owner.generation, MAX(held.generation)),"
    " COALESCE(project_id, :unknown), COALESCE(user_id, :unknown),"
    " consumer_type, json_group_object(provider_uuid, json(resources)),"
    " COALESCE(MAX(modified), :now)"
    " FROM held JOIN listed ON listed.uuid = held.provider_uuid"
    " JOIN reading ON reading.uuid = held.provider_uuid"
    " LEFT JOIN owner ON owner.uuid = held.consumer_uuid"
    " GROUP BY consumer_uuid ORDER BY MIN(position), consumer_uuid",
)

USAGES = """
    SELECT owner.project_id, item.key, SUM(item.value)
    FROM owner JOIN held ON held.consumer_uuid = owner.uuid, json_each(held.resources) AS item
    WHERE owner.project_id IS NOT NULL GROUP BY 1, 2
"""
CONSUMER_COUNTS = """
    SELECT owner.project_id, COUNT(DISTINCT held.consumer_uuid)
    FROM owner JOIN held ON held.consumer_uuid = owner.uuid
    WHERE owner.project_id IS NOT NULL GROUP BY 1
"""
PROVIDERS_OF_PROJECT = """
    SELECT DISTINCT held.provider_uuid FROM owner JOIN held ON held.consumer_uuid = owner.uuid
    WHERE owner.project_id = ?
"""
