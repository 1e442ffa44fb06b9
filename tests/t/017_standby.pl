# A streaming standby answers searches, with an engine of its own; it refuses what writes, until it
# is promoted.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use Test::More;
use RagCluster;

my $primary = rag_node('primary', conf => "wal_level = replica\nmax_wal_senders = 5\nhot_standby = on\n");
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

my $search = "SELECT rank, score::numeric(8, 6), uri, chunk_id FROM rag_search('when is bread baked')";
my $expected = $primary->safe_psql('postgres', $search);
like($expected, qr/^1\|.*bread\.md/, 'the primary is searched');
is($standby->safe_psql('postgres', $search), $expected, 'the standby gives the same answers');
my $engine = engine_pid($standby, 'embed');
isnt($engine, engine_pid($primary, 'embed'), 'from an engine of its own');
is($standby->safe_psql('postgres', "SELECT rag_functions.vector_dims(rag_embed('hello'))"), '384', 'it embeds');
is($standby->safe_psql('postgres', "SELECT count(*) FROM rag_split('A text.')"), '1', 'and splits');
is($standby->safe_psql('postgres', "SELECT rag_stats() ->> 'total_chunks'"), $primary->safe_psql('postgres', "SELECT rag_stats() ->> 'total_chunks'"),
	'and counts');

my @refused = ('25006', '.', undef);
error_like(run_sql($standby, "SELECT rag_sync('docs')"), @refused, 'a sync is refused');
error_like(run_sql($standby, "SELECT rag_add_document('Cake', 'cake')"), @refused, 'so is a document');
error_like(run_sql($standby, "SELECT rag_create_collection('new')"), @refused, 'and a collection');
for my $call ("alter_source('docs', max_retries => 1)", "suspend('docs')", "resume('docs')", "drop_source('docs')", "delete('AutoIndexer', 'docs')",
	"apply('{}')", "create_source('more', 'folder', '{\"path\": \"/srv\"}')")
{
	error_like(run_sql($standby, "SELECT rag_$call"), @refused, "rag_$call is refused");
}
same_cluster($witness, 'what writes is refused');
is($standby->safe_psql('postgres', q{SELECT field FROM rag_validate_source('folder', '{"pth": "/srv"}', '@dialy', name => 'docs', credentials => 'none')}),
	"name\nspec.path\nspec.pth\ncredentials\nschedule", 'a definition can be validated');
my $manifest = q{SELECT rag_get('AutoIndexer', 'docs') -> 'spec'};
is($standby->safe_psql('postgres', $manifest), $primary->safe_psql('postgres', $manifest), 'a manifest read');
is($standby->safe_psql('postgres', q{SELECT rag_next_runs('@yearly', 1, '2026-05-29') = '2027-01-01'}), 't', 'and a schedule previewed');

kill 'KILL', $engine;
await('another engine runs', sub { grep { $_ != $engine } engines($standby, 'embed') });
is($standby->safe_psql('postgres', $search), $expected, 'an engine that is killed is replaced');

write_file("$folder/rolls.md", "# Rolls\n\nRolls are baked at noon.\n");
sync_ok($primary, 'docs');
$primary->wait_for_catchup($standby);
is($standby->safe_psql('postgres', "SELECT uri FROM rag_search('when are rolls baked', top_k => 1)"), "file://$folder/rolls.md",
	'what the primary indexes is found on the standby');

$primary->stop;
$standby->promote;
write_file("$folder/cake.md", "# Cake\n\nCake is baked in the evening.\n");
sync_ok($standby, 'docs', 'a promoted standby syncs');
is(run_row($standby, 'docs', 'documents_added, documents_unchanged, chunks_embedded'), '1|6|1', 'and goes on where the primary was');
is($standby->safe_psql('postgres', "SELECT uri FROM rag_search('when is cake baked', top_k => 1)"), "file://$folder/cake.md", 'and finds it');
same_cluster($witness, 'promotion');
$standby->stop;

# without preload the first search starts the engine, on a standby too
$standby = PostgreSQL::Test::Cluster->new('standby_no_preload');
$standby->init_from_backup($primary, 'base');
$standby->append_conf('postgresql.conf', "shared_preload_libraries = ''");
$standby->set_standby_mode;
$standby->start;
is($standby->safe_psql('postgres', "SELECT uri FROM rag_search('when is bread baked', top_k => 1)"), "file://$folder/bread.md",
	'a standby without preload is searched too');
$standby->stop;
is_deeply([ engines($standby) ], [], 'no engine outlives it');
done_testing();
