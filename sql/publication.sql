-- Inserts of the outbox and nothing else: with updates or deletes published, those of the
-- application would fail on a table without a replica identity.
do $publication$
begin
  if exists (select from pg_publication where pubname = {{.PublicationLiteral}}) then
    return;
  end if;
  if exists (select from pg_class where oid = {{.TableLiteral}}::regclass and relkind = 'p') then
    create publication {{.Publication}} for table {{.Table}} with (publish = 'insert', publish_via_partition_root = true);
  else
    create publication {{.Publication}} for table {{.Table}} with (publish = 'insert');
  end if;
end
$publication$;
