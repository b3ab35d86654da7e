-- Only a superuser may do this; managed services have a command of their own for it, such as
-- grant rds_replication to {{.Role}}.
do $role$
begin
  if exists (select from pg_roles where rolname = {{.RoleLiteral}} and not rolreplication and not rolsuper) then
    alter role {{.Role}} replication;
  end if;
end
$role$;
