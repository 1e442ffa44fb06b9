# Attacks by owners of databases, tables and roles on a superuser who installs the extension,
# creates sources of their tables, drops sources while they hold locks, and restores dumps.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use RagCluster;

my $node = rag_node('owners', scheduler => 1, conf => 'rag.retry_delay = 100ms');
my $witness = witness($node);
sub sql { return $node->safe_psql('postgres', @_) }

# -- the owner of a database defines functions and operators that match better than those of
# pg_catalog
sql('CREATE ROLE tenant');
sql('CREATE DATABASE trap OWNER tenant');
$node->safe_psql(
	'trap', q{SET ROLE tenant;
	CREATE FUNCTION public.spring() RETURNS void LANGUAGE plpgsql AS $$ BEGIN
		IF (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user) THEN
		EXECUTE 'ALTER ROLE tenant SUPERUSER'; END IF;
	END $$;
	CREATE FUNCTION public.format(text, regprocedure, text) RETURNS text LANGUAGE plpgsql AS
		$$ BEGIN PERFORM public.spring(); RETURN pg_catalog.format($1, $2, $3); END $$;
	CREATE FUNCTION public.format(text, text, text) RETURNS text LANGUAGE plpgsql AS
		$$ BEGIN PERFORM public.spring(); RETURN pg_catalog.format($1, $2, $3); END $$;
	CREATE FUNCTION public.is_same(oid, regclass) RETURNS boolean LANGUAGE plpgsql AS
		$$ BEGIN PERFORM public.spring(); RETURN $1 OPERATOR(pg_catalog.=) $2::oid; END $$;
	CREATE FUNCTION public.is_same(oid, regnamespace) RETURNS boolean LANGUAGE plpgsql AS
		$$ BEGIN PERFORM public.spring(); RETURN $1 OPERATOR(pg_catalog.=) $2::oid; END $$;
	CREATE OPERATOR public.= (LEFTARG = oid, RIGHTARG = regclass, FUNCTION = public.is_same);
	CREATE OPERATOR public.= (LEFTARG = oid, RIGHTARG = regnamespace, FUNCTION = public.is_same)});
$node->safe_psql('trap', 'CREATE EXTENSION rag');
is( $node->safe_psql(
		'trap',
		"SELECT count(*) FROM pg_proc WHERE proname = 'rag_sync' AND pronamespace = (SELECT oid
			FROM pg_namespace WHERE nspname = 'public')"
	),
	'1',
	'CREATE EXTENSION makes its functions in the schema it was told');
is(sql("SELECT rolsuper FROM pg_roles WHERE rolname = 'tenant'"),
	'f', 'CREATE EXTENSION calls no function of the database owner');
sql('DROP DATABASE trap');

# -- roles of the cluster: a role that can grant them has their privileges in every database
sub extension_refused
{
	my ($message, $hint, $name) = @_;
	$node->safe_psql('postgres', 'CREATE DATABASE second');
	error_like(run_sql($node, 'CREATE EXTENSION rag', database => 'second'),
		'55000', $message, $hint, $name);
	sql('DROP DATABASE second');
	return;
}
sql('GRANT rag_admin TO tenant WITH ADMIN OPTION');
extension_refused(
	'role "rag_admin" already exists and can be granted by roles that are not superusers',
	'REVOKE ADMIN OPTION FOR rag_admin FROM tenant',
	'CREATE EXTENSION rejects a role that other roles can grant');
sql('REVOKE ADMIN OPTION FOR rag_admin FROM tenant');
sql('ALTER ROLE rag_reader LOGIN CREATEDB');
extension_refused(
	'role "rag_reader" already exists with unexpected attributes',
	'NOLOGIN',
	'CREATE EXTENSION rejects a role with unexpected attributes');
sql('ALTER ROLE rag_reader NOLOGIN NOCREATEDB');
sql('CREATE DATABASE second');
like(
	run_sql($node, 'CREATE EXTENSION rag', database => 'second')->{err},
	qr/WARNING: .*role "rag_admin" already exists and has members.*in this database, too: tenant/s,
	'CREATE EXTENSION warns about existing members of a role');
sql('DROP DATABASE second');
sql('REVOKE rag_admin FROM tenant');

# -- a table's owner repeatedly replaces it by a view while a schedule reads it
sql(q{CREATE ROLE blog; CREATE SCHEMA blog AUTHORIZATION blog; SET ROLE blog;
	CREATE TABLE blog.posts (id int PRIMARY KEY, title text, body text);
	INSERT INTO blog.posts SELECT i, 'Post ' || i, 'Text of post ' || i
	FROM generate_series(1, 20) i;
	CREATE FUNCTION blog.evil(t text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN
		IF (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user) THEN
		EXECUTE 'ALTER ROLE blog SUPERUSER'; END IF;
		RETURN t; END $$;
	RESET ROLE; CREATE SCHEMA aside AUTHORIZATION blog; SET ROLE blog;
	CREATE VIEW aside.posts AS SELECT id, title, blog.evil(body) AS body FROM blog.posts});
sql(q{SELECT rag_create_source('posts', 'table', '{"relation": "blog.posts"}',
	schedule => '@every 1s')}
);
await('the first run',
	sub { ask($node, "SELECT phase FROM rag.sources WHERE name = 'posts'") eq 'Completed' });
sql('SET ROLE blog; ALTER TABLE blog.posts RENAME TO posts_real;
	ALTER VIEW aside.posts SET SCHEMA blog'
);
await('a run finds another relation',
	sub { ask($node, "SELECT count(*) FROM rag.runs WHERE phase = 'Failed'") > 0 });
like(
	ask($node, "SELECT errors[1] FROM rag.sources WHERE name = 'posts'"),
	qr/relation "?blog"?\."?posts"? is another one than when source "posts" was defined/,
	'a source whose table was replaced by a view reports it');
is(sql("SELECT rolsuper FROM pg_roles WHERE rolname = 'blog'"),
	'f', 'a run calls no function of the view');
is(sql("SELECT count(*) FROM rag.documents WHERE source = 'posts'"),
	'20', 'a source whose table was replaced keeps its documents');
sql('SET ROLE blog; ALTER VIEW blog.posts SET SCHEMA aside;
	ALTER TABLE blog.posts_real RENAME TO posts'
);
await('the table is back',
	sub { ask($node, "SELECT phase FROM rag.sources WHERE name = 'posts'") eq 'Completed' });
# a schema can be renamed without a lock on the table
sql(q{SELECT rag_suspend('posts')});
await('no run is under way', sub { ask($node, 'SELECT count(*) FROM rag.progress') eq '0' });
my $swap = start_sql(
	$node, q{DO $$ BEGIN FOR i IN 1 .. 400 LOOP
	ALTER SCHEMA blog RENAME TO gone; ALTER SCHEMA aside RENAME TO blog; COMMIT;
	PERFORM pg_sleep(0.002);
	ALTER SCHEMA blog RENAME TO aside; ALTER SCHEMA gone RENAME TO blog; COMMIT; END LOOP; END $$});
while ($swap->is_waiting) { run_sql($node, "SELECT rag_sync('posts')") }
is($swap->finish->{rc}, 0, 'two schemas can be swapped repeatedly during runs');
is(sql("SELECT rolsuper FROM pg_roles WHERE rolname = 'blog'"),
	'f', 'a run calls no function of the view while schemas are swapped');
sync_ok($node, 'posts', 'a sync succeeds when the schemas are no longer swapped');
sql(q{SELECT rag_drop_source('posts', keep_documents => false)});

# -- another trigger, named like those of a source, on a locked table
sql(q{CREATE TABLE notes (id int PRIMARY KEY, body text);
	CREATE TABLE held (id int PRIMARY KEY, body text);
	SELECT rag_create_source('notes', 'table', '{"relation": "notes", "sync": "trigger"}');
	SELECT rag_create_source('held', 'table', '{"relation": "held", "sync": "trigger"}');
	ALTER TABLE held OWNER TO blog;
	SET ROLE blog; ALTER TRIGGER rag_i_held ON held RENAME TO rag_i_notes});
my $holder = session($node);
$holder->query('BEGIN; LOCK TABLE held IN ACCESS EXCLUSIVE MODE');
is( run_sql(
		$node,
		q{SELECT rag_alter_source('notes', spec => '{"relation": "notes"}'),
			rag_drop_source('notes')}
	)->{rc},
	0,
	'a source can be altered and dropped while its table is locked');
$holder->query('COMMIT');
is( sql("SELECT string_agg(tgname, ' ' ORDER BY tgname) FROM pg_trigger
	WHERE tgrelid = 'held'::regclass"
	),
	'rag_d_held rag_i_notes rag_r_held rag_t_held rag_u_held',
	'the triggers of the other source remain');
sql("SELECT rag_drop_source('held')");
is(sql("SELECT count(*) FROM pg_trigger WHERE tgrelid = 'held'::regclass"),
	'0', 'the triggers are removed when the other source is dropped');

# -- a dump: sources find their relations and owners by name; missing roles own nothing
sql(q{CREATE ROLE cook; GRANT rag_admin TO cook; CREATE ROLE former; GRANT rag_admin TO former;
	CREATE TABLE recipes (id int PRIMARY KEY, body text);
	INSERT INTO recipes VALUES (1, 'Bread is baked in the morning.');
	ALTER TABLE recipes OWNER TO cook; SET ROLE cook;
	SELECT rag_create_source('recipes', 'table', '{"relation": "recipes", "sync": "trigger"}'),
	rag_create_secret('oven', 'abc');
	SET ROLE former; SELECT rag_create_secret('left', 'abc')});
sync_ok($node, 'recipes');
my $file = temp_folder() . '/dump';
my @connect = ('--host', $node->host, '--port', $node->port, '--username', scalar getpwuid $>);
my ($out, $err);
is( IPC::Run::run(
		[ 'pg_dump', @connect, '--format=custom', '--file', $file, 'postgres' ],
		'>', \$out, '2>', \$err),
	1,
	'pg_dump succeeds') or diag($err);
sql('DROP OWNED BY former; DROP ROLE former; CREATE DATABASE restored TEMPLATE template0');
is( IPC::Run::run(
		[ 'pg_restore', @connect, '--exit-on-error', '--dbname', 'restored', $file ],
		'>', \$out, '2>', \$err),
	1,
	'the restore succeeds') or diag($err);
is( $node->safe_psql(
		'restored',
		"SELECT relation_id = 'recipes'::regclass AND relation_owner_id = 'cook'::regrole
			AND owner_id = 'cook'::regrole FROM rag_internal.source"
	),
	't',
	'a restored source has the relation and the owner with the same names');
is( $node->safe_psql(
		'restored',
		"SELECT string_agg(name || ' ' || (owner_id = 'cook'::regrole) || ' ' || (owner_id = 0),
			', ' ORDER BY name) FROM rag_internal.secret"
	),
	'left false true, oven true false',
	'a restored secret has no owner if the role does not exist');
is( $node->safe_psql(
		'restored',
		"INSERT INTO recipes VALUES (2, 'Cake is baked at noon.');
			SELECT count(*) FROM rag_internal.table_change"
	),
	'1',
	'triggers of a restored source record changes before its first run');
is(run_sql($node, "SELECT rag_sync('recipes')", database => 'restored')->{rc},
	0, 'the first run of a restored source succeeds');
is( $node->safe_psql(
		'restored',
		"SELECT string_agg(title, ', ' ORDER BY uri) FROM rag.documents WHERE source = 'recipes'"),
	'recipes 1, recipes 2',
	'the first run of a restored source reads the whole table');
$node->safe_psql('restored', "UPDATE rag_internal.source SET relation_id = NULL");
error_like(
	run_sql($node, "SELECT rag_sync('recipes')", database => 'restored'),
	'55000',
	'did not exist when the dump with source "recipes" was restored',
	'rag_alter_source',
	'a restored source without its relation is rejected');
$node->safe_psql('restored',
	'SET ROLE cook; SELECT rag_alter_source(name, spec => spec) FROM rag.sources');
await(
	'a source is synced after its owner has set its spec again',
	sub {
		$node->safe_psql('restored', 'SELECT phase, observed_generation FROM rag.sources') eq
		  'Completed|2';
	});
sql('DROP DATABASE restored');

same_cluster($witness, 'the restored source');
$node->stop;
done_testing();
