-- What the relay's role needs beside the attribute REPLICATION.
grant usage on schema {{.Schema}}, {{.TableSchema}} to {{.Role}};
grant select on {{.Table}}, {{.Schema}}.meta to {{.Role}};
grant select, insert, update, delete on
  {{.Schema}}.checkpoint, {{.Schema}}.lineage, {{.Schema}}.contract, {{.Schema}}.rejected_event to {{.Role}};
