-- The outbox. The application inserts a row in the same transaction as the change that it tells
-- of, and needs only entity_id, event_type and payload. A table that exists is left as it is.
do $outbox$
begin
  if to_regclass({{.TableLiteral}}) is not null then
    return;
  end if;

  create table {{.Table}} (
    id            bigserial primary key,
    entity_id     text not null,
    event_type    text not null,
    dedupe_key    text unique,
    partition_key text,
    ordering_key  text,
    payload       jsonb not null,
    status        text not null default 'pending',
    attempts      integer not null default 0,
    last_error    text,
    created_at    timestamptz not null default clock_timestamp(),
    published_at  timestamptz
  );
  create index on {{.Table}} (status, created_at);

  -- Fills the keys that are null, as the relay derives them:
  --   dedupe_key     {event_type}:{entity_id}:{id}, left null where it is too long for an index
  --   partition_key  {entity_id}
  --   ordering_key   {created_at in ms, %013d}:{id, %020d}, left null for an infinite created_at
  -- It never raises an error: the application's transaction is not at risk.
  create or replace function {{.Function}}() returns trigger
    language plpgsql set search_path = pg_catalog as $keys$
  declare
    ms numeric;
    id numeric := new.id;
  begin
    if new.dedupe_key is null and octet_length(new.event_type) + octet_length(new.entity_id) <= 2600 then
      new.dedupe_key := new.event_type || ':' || new.entity_id || ':' || new.id;
    end if;
    if new.partition_key is null then
      new.partition_key := new.entity_id;
    end if;
    if new.ordering_key is null and isfinite(new.created_at) then
      -- In two parts: the epoch of years past 294246 is rounded to 16 digits.
      ms := floor(extract(epoch from date_trunc('second', new.created_at))) * 1000
        + floor(extract(microseconds from new.created_at) % 1000000 / 1000);
      -- lpad would cut what is longer than the width.
      new.ordering_key := case when ms < 0 then '-' else '' end
        || lpad(abs(ms)::text, greatest(length(abs(ms)::text), case when ms < 0 then 12 else 13 end), '0')
        || ':' || case when id < 0 then '-' else '' end
        || lpad(abs(id)::text, greatest(length(abs(id)::text), case when id < 0 then 19 else 20 end), '0');
    end if;
    return new;
  end
  $keys$;

  create trigger fill_keys before insert on {{.Table}} for each row
    when (new.dedupe_key is null or new.partition_key is null or new.ordering_key is null)
    execute function {{.Function}}();
end
$outbox$;
