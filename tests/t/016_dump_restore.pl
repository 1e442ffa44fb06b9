# A dump can be restored into another database completely and without errors, and the restored
# database works. The extension can be dropped and created again, and works in any schema.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use RagCluster;

my $node = rag_node('dump');
my $folder = write_documents(temp_folder(), 4, 3);
write_file("$folder/bread.md",
	"---\ntags: [oven]\n---\n\n# Bread\n\nBread is baked in the morning.\n");
write_file("$folder/broken.pdf", '%PDF-1.7 broken');
create_folder_source($node, 'docs', $folder);
run_sql($node, "SELECT rag_sync('docs')");
$node->safe_psql(
	'postgres',
	q{SELECT rag_create_collection('second', chunk_size => 300, description => 'it''s another');
	SELECT rag_add_document('Rolls are baked at noon.', 'rolls', 'Rolls', category => 'oven',
	tags => '{a,b}', knowledge_id => 7,
		metadata => '{"k": ["v"]}', collection => 'second');
	SELECT rag_apply_manifest('{"apiVersion": "rag/v1", "kind": "Retriever",
		"metadata": {"name": "another"},
	"spec": {"description": "x"}}');
	SELECT rag_create_collection('third', retriever => 'another');
	SELECT rag_create_knowledge(8, 'Nothing', '/nonexistent/file');
	UPDATE rag_internal.collection SET description = 'changed' WHERE name = 'default'});

my @tables = (
	qw(rag.documents rag.chunks),
	map { "rag_internal.$_" }
	  qw(retriever collection source run run_error document_digest knowledge_item));
my $all = join ' UNION ALL ', map {
	"SELECT '$_', count(*), md5(string_agg(t::text, chr(10) ORDER BY t::text COLLATE \"C\"))
		FROM $_ t"
} @tables;
$all .= " UNION ALL SELECT 'run_id', last_value, is_called::text FROM rag_internal.run_id";
my $search =
  "SELECT rank, score::numeric(8, 6), uri, chunk_id, metadata FROM rag_search('when is bread baked')
	UNION ALL SELECT rank, score::numeric(8, 6), uri, chunk_id, metadata
	FROM rag_search('rolls', 'second') ORDER BY 2, 1";
my %before = map { $_ => $node->safe_psql('postgres', $_) } ($all, $search);
like(
	$before{$all},
	qr/^rag\.documents\|7\|.*^rag_internal\.run_error\|1\|/ms,
	'all tables contain rows before the dump');

sub is_restored
{
	my ($database, $how) = @_;
	is($node->safe_psql($database, $all), $before{$all}, "$how: all tables have the same contents");
	is($node->safe_psql($database, $search),
		$before{$search}, "$how: a search returns the same rows");
	error_like(
		run_sql($node, "DELETE FROM rag_internal.collection
			WHERE name = 'second'", database => $database),
		'23503',
		'delete on table "collection"',
		undef,
		"$how: a referenced collection cannot be deleted");
	error_like(
		run_sql($node, "UPDATE rag_internal.source
			SET collection = 'nowhere'", database => $database),
		'23503',
		'update on table "source"',
		undef,
		"$how: a missing collection cannot be referenced");
	is(run_sql($node, "SELECT rag_sync('docs')", database => $database)->{rc},
		0, "$how: rag_sync succeeds");
	is( $node->safe_psql(
			$database,
			"SELECT documents_unchanged, documents_updated, documents_added, documents_deleted,
				chunks_embedded
		FROM rag.runs ORDER BY run_id DESC LIMIT 1"),
		'5|0|0|0|0',
		"$how: rag_sync changes nothing");
	is( $node->safe_psql(
			$database,
			"SELECT success FROM rag_add_document('Cake is baked in the evening.', 'cake',
				collection => 'second')"
		),
		't',
		"$how: rag_add_document adds a document");
	is( $node->safe_psql(
			$database, "SELECT count(*) FROM pg_inherits WHERE inhparent = 'rag.chunks'::regclass"),
		'2',
		"$how: rag_add_document uses the existing partition");
	is( $node->safe_psql(
			$database,
			"SELECT count(*) FROM pg_index i JOIN pg_inherits p ON p.inhrelid = i.indrelid
				WHERE inhparent = 'rag.chunks'::regclass"
		),
		$node->safe_psql(
			'postgres',
			"SELECT count(*) FROM pg_index i JOIN pg_inherits p ON p.inhrelid = i.indrelid
				WHERE inhparent = 'rag.chunks'::regclass"
		),
		"$how: each index exists once");
	return;
}

my $dump = temp_folder();
my @connect = ('--host', $node->host, '--port', $node->port, '--username', scalar getpwuid $>);

for my $format (qw(custom plain directory inserts))
{
	my $database = "from_$format";
	my $file = "$dump/$format";
	my ($out, $err);
	is( IPC::Run::run(
			[
				'pg_dump', @connect, ($format eq 'inserts' ? '--inserts' : "--format=$format"),
				'--file', $file, 'postgres'
			],
			'>',
			\$out,
			'2>',
			\$err),
		1,
		"pg_dump succeeds: $format");
	is($err, '', "pg_dump prints nothing: $format");
	$node->safe_psql('postgres', "CREATE DATABASE $database TEMPLATE template0");
	my @restore =
	  $format =~ /^(plain|inserts)$/
	  ? (
		'psql', @connect, '--no-psqlrc', '--quiet',
		'--set', 'ON_ERROR_STOP=1', '--dbname', $database,
		'--file', $file)
	  : (
		'pg_restore', @connect, '--exit-on-error', ($format eq 'directory' ? '--jobs=2' : ()),
		'--dbname', $database, $file);
	is(IPC::Run::run(\@restore, '>', \$out, '2>', \$err), 1, "the restore succeeds: $format");
	is($err, '', "the restore prints nothing: $format");
	is_restored($database, $format);
}

# -- the extension is dropped and created again
$node->safe_psql('from_custom', 'DROP EXTENSION rag CASCADE');
is($node->safe_psql('from_custom', "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'rag%'"),
	'0', 'DROP EXTENSION leaves no schema');
is($node->safe_psql('from_custom', "SELECT count(*) FROM pg_proc WHERE proname LIKE 'rag%'"),
	'0', 'DROP EXTENSION leaves no functions');
$node->safe_psql('from_custom', 'CREATE EXTENSION rag');
create_folder_source_in('from_custom', '');
is( $node->safe_psql(
		'from_custom', "SELECT uri FROM rag_search('when is bread baked', top_k => 1)"),
	"file://$folder/bread.md",
	'a sync and a search work after the extension is created again');

# -- another schema, which is not in search_path
$node->safe_psql('postgres', 'CREATE DATABASE elsewhere');
$node->safe_psql('elsewhere',
	'CREATE SCHEMA "Tools & more"; CREATE EXTENSION rag SCHEMA "Tools & more"');
create_folder_source_in('elsewhere', '"Tools & more".');
is( $node->safe_psql(
		'elsewhere',
		q{SELECT uri FROM "Tools & more".rag_search('when is bread baked', top_k => 1)}),
	"file://$folder/bread.md",
	'rag_search works in another schema');
is( $node->safe_psql(
		'elsewhere',
		q{SELECT '[1,0]'::rag_types.vector OPERATOR("Tools & more".<=>) '[0,1]'::rag_types.vector}),
	'1',
	'operators work in another schema');
is( $node->safe_psql(
		'elsewhere',
		q{SELECT success FROM "Tools & more".rag_add_document('Rolls are baked at noon.', 'rolls')}
	),
	't',
	'rag_add_document works in another schema');
{
	my ($out, $err);
	is( IPC::Run::run(
			[ 'pg_dump', @connect, '--format=custom', '--file', "$dump/elsewhere", 'elsewhere' ],
			'>', \$out, '2>', \$err),
		1,
		'pg_dump of an extension in another schema succeeds');
	$node->safe_psql('postgres', 'CREATE DATABASE restored');
	is( IPC::Run::run(
			[
				'pg_restore', @connect, '--exit-on-error', '--dbname', 'restored',
				"$dump/elsewhere"
			],
			'>',
			\$out,
			'2>',
			\$err),
		1,
		'the restore of an extension in another schema succeeds');
	is($err, '', 'the restore of an extension in another schema prints nothing');
	is( $node->safe_psql('restored', $all),
		$node->safe_psql('elsewhere', $all),
		'a restored extension in another schema has the same contents');
}

# databases can be dropped: no worker is connected to them
$node->safe_psql('postgres', "DROP DATABASE $_")
  for qw(from_custom from_plain from_directory elsewhere restored);
$node->stop;
done_testing();

sub create_folder_source_in
{
	my ($database, $schema) = @_;
	$node->safe_psql($database,
		qq{SELECT ${schema}rag_create_source('docs', 'folder', '{"path": "$folder"}')});
	run_sql($node, "SELECT ${schema}rag_sync('docs')", database => $database);
	return;
}
