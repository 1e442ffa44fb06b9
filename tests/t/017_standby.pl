# A streaming standby answers searches with an engine of its own. It rejects writes until it is
# promoted.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use Test::More;
use RagCluster;

my $primary =
  rag_node('primary', conf => "wal_level = replica\nmax_wal_senders = 5\nhot_standby = on\n");
my $folder = write_documents(temp_folder(), 4, 3);
write_file("$folder/bread.md", "# Bread\n\nBread is baked in the morning.\n");
create_folder_source($primary, 'docs', $folder);
sync_ok($primary, 'docs');

$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;
$primary->wait_for_catchup($standby);
my $witness = witness($standby);

my $search =
  "SELECT rank, score::numeric(8, 6), uri, chunk_id FROM rag_search('when is bread baked')";
my $expected = $primary->safe_psql('postgres', $search);
like($expected, qr/^1\|.*bread\.md/, 'a search on the primary finds the document');
is($standby->safe_psql('postgres', $search),
	$expected, 'a search on the standby returns the same rows');
my $engine = engine_pid($standby, 'embed');
isnt($engine, engine_pid($primary, 'embed'), 'the standby has its own engine');
is($standby->safe_psql('postgres', "SELECT rag_functions.vector_dims(rag_embed('hello'))"),
	'384', 'rag_embed works on a standby');
is($standby->safe_psql('postgres', "SELECT count(*) FROM rag_split('A text.')"),
	'1', 'rag_split works on a standby');
is( $standby->safe_psql('postgres', "SELECT rag_stats() ->> 'total_chunks'"),
	$primary->safe_psql('postgres', "SELECT rag_stats() ->> 'total_chunks'"),
	'rag_stats works on a standby');

my @refused = ('25006', '.', undef);
error_like(run_sql($standby, "SELECT rag_sync('docs')"),
	@refused, 'rag_sync is rejected on a standby');
error_like(run_sql($standby, "SELECT rag_add_document('Cake', 'cake')"),
	@refused, 'rag_add_document is rejected on a standby');
error_like(run_sql($standby, "SELECT rag_create_collection('new')"),
	@refused, 'rag_create_collection is rejected on a standby');
for my $call (
	"alter_source('docs', max_retries => 1)", "suspend('docs')",
	"resume('docs')", "drop_source('docs')",
	"delete_manifest('AutoIndexer', 'docs')", "apply_manifest('{}')",
	"create_source('more', 'folder', '{\"path\": \"/srv\"}')")
{
	error_like(run_sql($standby, "SELECT rag_$call"),
		@refused, "rag_$call is rejected on a standby");
}
same_cluster($witness, 'rejected calls on a standby');

# bundles are files, and counts are in shared memory
my $bundles = temp_folder();
my $export = "SET rag.bundle_folders = '$bundles'; SELECT documents FROM
	rag_export_collection('default', '$bundles/from-standby')";
my $exported = $standby->safe_psql('postgres', $export);
error_like(run_sql($standby, $export), '58P02', 'already exists', undef,
	'an export on a standby replaces no folder');
is( $standby->safe_psql(
		'postgres', "SET rag.bundle_folders = '$bundles';
			SELECT documents FROM rag_bundle_info('$bundles/from-standby', verify => true)"),
	$exported,
	'rag_bundle_info works on a standby');
my $exports = q{SELECT labels ->> 'result', value FROM rag.metrics
	WHERE name = 'rag_operations_total' AND labels ->> 'operation' = 'export' ORDER BY 1};
is($standby->safe_psql('postgres', $exports),
	"failure|1\nsuccess|1", 'a standby counts its exports');
is($primary->safe_psql('postgres', $exports), '', 'the primary does not count them');
is( $standby->safe_psql(
		'postgres',
		q{SELECT field FROM rag_validate_source('folder', '{"pth": "/srv"}', '@dialy',
			name => 'docs', credentials => 'none')}
	),
	"name\nspec.pth\nspec.path\ncredentials\nschedule",
	'rag_validate_source works on a standby');
my $manifest = q{SELECT rag_get_manifest('AutoIndexer', 'docs') -> 'spec'};
is( $standby->safe_psql('postgres', $manifest),
	$primary->safe_psql('postgres', $manifest),
	'rag_get_manifest works on a standby');
is( $standby->safe_psql(
		'postgres', q{SELECT rag_next_runs('@yearly', 1, '2026-05-29') = '2027-01-01'}),
	't',
	'rag_next_runs works on a standby');

kill 'KILL', $engine;
await(
	'another engine runs',
	sub {
		grep { $_ != $engine } engines($standby, 'embed');
	});
is($standby->safe_psql('postgres', $search), $expected, 'a killed engine is replaced on a standby');

write_file("$folder/rolls.md", "# Rolls\n\nRolls are baked at noon.\n");
sync_ok($primary, 'docs');
$primary->wait_for_catchup($standby);
is( $standby->safe_psql(
		'postgres', "SELECT uri FROM rag_search('when are rolls baked', top_k => 1)"),
	"file://$folder/rolls.md",
	'a search on the standby finds what the primary has indexed');

$primary->stop;
$standby->promote;
write_file("$folder/cake.md", "# Cake\n\nCake is baked in the evening.\n");
sync_ok($standby, 'docs', 'rag_sync works after promotion');
is(run_row($standby, 'docs', 'documents_added, documents_unchanged, chunks_embedded'),
	'1|6|1', 'a sync after promotion indexes only the new file');
is( $standby->safe_psql('postgres', "SELECT uri FROM rag_search('when is cake baked', top_k => 1)"),
	"file://$folder/cake.md",
	'a search after promotion finds the new file');
same_cluster($witness, 'promotion');
$standby->stop;

# without preload the first search starts the engine, also on a standby
$standby = PostgreSQL::Test::Cluster->new('standby_no_preload');
$standby->init_from_backup($primary, 'base');
$standby->append_conf('postgresql.conf', "shared_preload_libraries = ''");
$standby->set_standby_mode;
$standby->start;
is( $standby->safe_psql(
		'postgres', "SELECT uri FROM rag_search('when is bread baked', top_k => 1)"),
	"file://$folder/bread.md",
	'a search works on a standby without preload');
$standby->stop;
is_deeply([ engines($standby) ], [], 'no engine is running after the standby stopped');
done_testing();
