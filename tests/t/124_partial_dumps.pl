# Dumps of a part: data alone into an extension that has been created, the schema of the extension
# alone, and the database of an owner without rights of a superuser.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use RagCluster;

my $node = rag_node('partial_dumps');
my $folder = write_documents(temp_folder(), 3, 2);
write_file("$folder/bread.md", "# Bread\n\nBread is baked in the morning.\n");
chmod 0755, $folder;

# the owner of the database, and of all that is in it
$node->safe_psql(
	'postgres', q{
	CREATE ROLE app LOGIN;
	GRANT rag_admin TO app;
	GRANT pg_read_server_files TO app;
	CREATE DATABASE app OWNER app}
);
$node->safe_psql('app', 'CREATE EXTENSION rag');

sub as_app
{
	my ($database, $sql) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $result = run_sql($node, $sql, database => $database, user => 'app');
	is($result->{rc}, 0, "$database: the owner can: " . ($sql =~ s/\s+/ /gr))
	  or diag($result->{err});
	return $result->{out};
}
as_app('app', qq{SELECT rag_create_source('docs', 'folder', '{"path": "$folder"}')});
as_app('app', q{SELECT rag_sync('docs') > 0});
as_app(
	'app',
	q{SELECT rag_create_collection('second', chunk_size => 300, text_config => 'simple');
	SELECT success FROM rag_add_document('Rolls are baked at noon.', 'rolls', 'Rolls',
		category => 'oven', tags => '{a,b}', metadata => '{"k": ["v"]}', collection => 'second');
	SELECT rag_create_retriever('words', '{"retrievalMethods": {"keyword": {"enabled": true}}}');
	SELECT rag_create_collection('third', retriever => 'words');
	SELECT success FROM rag_add_document('Cakes are baked at night.', 'cakes',
		collection => 'third')}
);
as_app('app', q{CREATE TABLE own AS SELECT 1 AS id});
# grants that the created extension has, and the dump has not
$node->safe_psql('app', q{SELECT rag_revoke_collection('default', 'rag_reader')});

my @collections = qw(default second third);
my $definitions = q{SELECT string_agg(c::text, chr(10) ORDER BY name) FROM (
	SELECT name, owner, owner_id, retriever, text_config, model_identity, partition, created_at
	FROM rag_internal.collection) AS c};
my $grants = q{SELECT string_agg(g::text, ' ' ORDER BY g::text) FROM rag.collection_grants g};
my $indexes = q{SELECT string_agg(indexdef, chr(10) ORDER BY indexdef) FROM pg_indexes
	WHERE schemaname = 'rag_internal' AND tablename LIKE 'rag\_kb\_%'};
sub contents { return join "\n", map { stored($node, $_, $_[0]) } @collections }
my %before = map { $_ => $node->safe_psql('app', $_) } $definitions, $grants, $indexes;
my $contents = contents('app');

sub is_restored
{
	my ($database) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(contents($database), $contents, "$database: the same documents and chunks");
	is($node->safe_psql($database, $definitions),
		$before{$definitions}, "$database: the same definitions and owners");
	is($node->safe_psql($database, $indexes), $before{$indexes}, "$database: the same indexes");
	for my $found (
		[ 'when is bread baked?', 'default', "file://$folder/bread.md" ],
		[ 'rolls', 'second', 'rolls' ],
		[ 'cakes', 'third', 'cakes' ])
	{
		is( as_app($database, "SELECT uri FROM rag_search('$found->[0]', '$found->[1]', 1)"),
			$found->[2], "$database: the answer is the same");
	}
	is(as_app($database, q{SELECT string_agg(state, ' ') FROM rag_collection_status()}),
		'ready ready ready', "$database: all collections are ready");
	as_app($database, q{SELECT rag_sync('docs') > 0});
	is( $node->safe_psql(
			$database, 'SELECT documents_unchanged, chunks_embedded FROM rag.runs
			ORDER BY run_id DESC LIMIT 1'),
		'4|0',
		"$database: a sync changes nothing");
	is( as_app(
			$database, q{SELECT action FROM rag_add_document('Tea is made at five.', 'tea',
			collection => 'second')}),
		'added',
		"$database: documents are added");
	return;
}

my $dumps = temp_folder();
my @connect = ('--host', $node->host, '--port', $node->port, '--username', scalar getpwuid $>);

sub quietly
{
	my ($name, @command) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($out, $err) = ('', '');
	my $succeeds = IPC::Run::run(\@command, '>', \$out, '2>', \$err);
	is($succeeds ? $err : "failed: $err", '', $name);
	return;
}

sub dump_and_restore
{
	my ($database, $setup, $dump, $restore) = @_;
	my $file = "$dumps/$database";
	$node->safe_psql('postgres', "CREATE DATABASE $database TEMPLATE template0 OWNER app");
	$node->safe_psql($database, $_) for @$setup;
	quietly("$database: pg_dump", 'pg_dump', @connect, '--file', $file, @$dump, 'app');
	quietly("$database: restore", @$restore, @connect, '--dbname', $database,
		$restore->[0] eq 'psql' ? '--file' : (), $file);
	return;
}
my @pg_restore = qw(pg_restore --exit-on-error);
my @created = ('CREATE EXTENSION rag', 'CREATE TABLE own (id int)');

dump_and_restore('data_alone', \@created, [qw(--format=custom --data-only)], \@pg_restore);
is_restored('data_alone');
is($node->safe_psql('data_alone', $grants),
	$before{$grants}, 'data_alone: a revoked grant stays revoked');

dump_and_restore(
	'data_as_inserts', \@created,
	[qw(--data-only --inserts)],
	[qw(psql --no-psqlrc --quiet --set ON_ERROR_STOP=1)]);
is_restored('data_as_inserts');

dump_and_restore('whole', [], [qw(--format=directory --jobs=2)], [ @pg_restore, '--jobs=2' ]);
is_restored('whole');
is($node->safe_psql('whole', $grants), $before{$grants}, 'whole: a revoked grant stays revoked');
is(as_app('whole', 'INSERT INTO own VALUES (2) RETURNING id'),
	'2', 'whole: tables have their owner');

dump_and_restore('one_schema', [], [qw(--format=custom --schema=rag* --extension=rag)],
	\@pg_restore);
is_restored('one_schema');
$node->stop;
done_testing();
