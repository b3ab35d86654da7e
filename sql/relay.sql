-- What the relay knows. Nobody else writes here, and no publication may hold these tables.

create schema if not exists {{.Schema}};

-- The version of these tables.
create table if not exists {{.Schema}}.meta (
  only_row boolean primary key default true check (only_row),
  version  integer not null
);

-- How far each slot has been published. Everything before stored is in Kafka.
create table if not exists {{.Schema}}.checkpoint (
  slot        text primary key,
  state       text not null check (state in ('creating', 'live', 'retired')),
  system_id   text not null,
  timeline    integer not null,
  stored      pg_lsn not null,
  owner       uuid,                       -- the relay process that may write this row
  publication text not null,
  fingerprint text not null default '',   -- of the publication's definition
  updated_at  timestamptz not null default clock_timestamp()
);

-- Histories of the log. LSNs are used again after a failover, a restore or an upgrade; the
-- number tells them apart. Never change or delete a row: positions of published events rest on it.
create table if not exists {{.Schema}}.lineage (
  no        integer primary key check (no between 1 and 65535),
  system_id text not null,
  timeline  integer not null,
  from_lsn  pg_lsn not null,
  unique (system_id, timeline)
);

-- What decides the partition, keys and value of a topic's events, from which position on.
-- from_lsn is null while a contract is pending. Never change or delete a row that has one.
create table if not exists {{.Schema}}.contract (
  topic           text not null,
  no              integer not null check (no >= 1),
  lineage         integer references {{.Schema}}.lineage,
  from_lsn        pg_lsn,
  partition_count integer not null check (partition_count >= 1),
  hash            text not null,
  keys            text not null,
  ordering_key    text not null,
  mapping         jsonb,
  value_format    text not null,
  primary key (topic, no),
  check ((lineage is null) = (from_lsn is null))
);

-- Events that could not be published as they are, with the whole record.
create table if not exists {{.Schema}}.rejected_event (
  slot          text not null,
  position      text not null collate "C",   -- fixed width, so text order is event order
  topic         text not null,
  partition     integer,
  shard_key     bytea not null,              -- what decides the partition and is held back
  record_key    bytea,
  record_value  bytea,
  headers       jsonb not null default '[]',
  timestamp_ms  bigint not null,
  dedupe_key    text not null,
  policy        text not null,
  state         text not null,
  request       text,                        -- what an operator asked for and is not done yet
  attempts      integer not null default 0,
  last_error    text,
  created_at    timestamptz not null default clock_timestamp(),
  updated_at    timestamptz not null default clock_timestamp(),
  primary key (slot, position)
);
create index if not exists rejected_event_held on {{.Schema}}.rejected_event (slot, topic, shard_key, position);

insert into {{.Schema}}.meta (version) values ({{.Version}}) on conflict do nothing;
