# ALTER EXTENSION rag UPDATE leads from each released version to the catalog that CREATE EXTENSION
# creates. The contents stay, and so do answers. A library and an extension of different versions
# work as far as they can, and say what to do.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use RagCluster;
use RagTest ();
use RagUpgrade;

my ($node, $fresh, $version);
my $status = q{SELECT severity, object, problem, remedy FROM rag_status()
	WHERE object = 'server'};
sub sql { return $node->safe_psql(@_) }

sub catalog_is_that_of_a_new_installation
{
	my ($release) = @_;
	sql('postgres', 'CREATE DATABASE renewed');
	sql('renewed', "CREATE SCHEMA extension_schema;
		CREATE EXTENSION rag SCHEMA extension_schema VERSION '$release'");
	same_functions($node, 'renewed', 'fresh', "the library has what the catalog of $release calls");
	sql('renewed', 'ALTER EXTENSION rag UPDATE');
	same_catalog(catalog_of($node, 'renewed'),
		$fresh, "an upgrade from $release leads to the catalog of $version");
	return;
}

sub contents_stay
{
	my ($release) = @_;
	my $offset = -s $node->logfile;
	load_dump($node, $release, 'filled', version => $release);
	my $before = what_is_kept($node, 'filled');
	like($before, qr/\|rolls\|/, "$release: the database is searched before the upgrade");

	is( sql('filled', $status),
		"error|server|the extension has version $release in this database, and the loaded library "
		  . "has version $version: sources are not synced|ALTER EXTENSION rag UPDATE;",
		"$release: rag_status tells that the extension was not updated");
	error_like(
		run_sql($node, "SELECT rag_sync('articles')", database => 'filled'),
		'55000',
		'extension "rag" has not been updated in this database',
		'Use ALTER EXTENSION rag UPDATE.',
		"$release: a sync waits for the upgrade");
	my $told = qr/rag: sources are not synced: extension "rag" has not been updated/;
	ok($node->wait_for_log($told, $offset), "$release: the log tells it");
	sql('filled', "SELECT rag_enqueue_document('Tea $_', 'tea:$_', collection => 'third')")
	  for 1 .. 3;

	sql('filled', 'ALTER EXTENSION rag UPDATE');
	is(what_is_kept($node, 'filled'),
		$before, "$release: contents, settings, rights and answers stay");
	is(sql('filled', $status), '', "$release: rag_status reports nothing after the upgrade");
	ok( $node->poll_query_until(
			'filled',
			q{SELECT count(*) = 1 FROM rag.documents WHERE uri = 'tea' AND collection = 'second'}),
		"$release: the scheduler works after the upgrade, and indexes a queued document");
	my $count = () = slurp_file($node->logfile, $offset) =~ /$told/g;
	is($count, 1, "$release: the log has not repeated that the extension was not updated");
	works_on($node, 'filled', $release);
	is( sql('filled', q{SELECT documents_added, documents_unchanged FROM rag.runs
			ORDER BY run_id DESC LIMIT 1}),
		'1|0',
		"$release: sources with triggers have those of this version: a run reads what changed");
	same_catalog(catalog_of($node, 'filled'),
		$fresh, "$release: a database with contents has the catalog of a new one");
	return;
}

sub dump_is_restored
{
	my ($release) = @_;
	load_dump($node, $release, 'restored');
	is( sql('restored', q{SELECT extversion FROM pg_extension WHERE extname = 'rag'}),
		$version, "a restore of $release creates the extension of this version");
	works_on($node, 'restored', "a dump of $release");
	same_catalog(catalog_of($node, 'restored'),
		$fresh, "a restored database of $release has the catalog of a new one");
	return;
}

# A server whose files were put back: here the catalog says that it is newer.
sub library_is_too_old
{
	sql('fresh', q{UPDATE pg_extension SET extversion = '99.0.0' WHERE extname = 'rag';
		ALTER ROLE CURRENT_USER IN DATABASE fresh SET search_path = public, extension_schema});
	my $install = 'Install version 99.0.0 of rag';
	error_like(
		run_sql($node, 'SELECT rag_internal.require_library()', database => 'fresh'),
		'55000', 'the library of extension "rag" is too old',
		"$install, and restart the server",
		'scripts of a newer version refuse an older library');
	like(
		sql('fresh', $status),
		qr/^error\|server\|.* 99\.0\.0 .*\|$install and restart the server/,
		'rag_status tells that the library is too old');
	is(sql('fresh', q{SELECT count(*) FROM rag_search('anything')}), '0', 'searches go on');
	sql('fresh', 'ALTER TABLE rag_internal.retriever RENAME COLUMN spec TO another_name');
	my $failed =
	  run_sql($node, q{SELECT rag_create_retriever('x', '{}')}, database => 'fresh');
	like($failed->{err}, qr/column .* does not exist/, 'a statement on other tables fails');
	like(
		$failed->{err},
		qr/DETAIL:  The extension has version 99\.0\.0 in this database\. The loaded library has /,
		'the error has both versions');
	like($failed->{err}, qr/HINT:  $install/, 'the error has the remedy');
	return;
}

for my $release (@releases)
{
	$node = RagTest::new_node("upgrade_$release" =~ tr/./_/r, scheduler => 1);
	put_key($node, $release);
	$node->start;
	my $witness = witness($node);
	sql('postgres', 'CREATE DATABASE fresh');
	sql('fresh', 'CREATE SCHEMA extension_schema; CREATE EXTENSION rag SCHEMA extension_schema');
	$fresh = catalog_of($node, 'fresh');
	cmp_ok(scalar @$fresh, '>', 5000, 'the catalog is described');
	$version = sql('fresh', q{SELECT extversion FROM pg_extension WHERE extname = 'rag'});

	catalog_is_that_of_a_new_installation($release);
	contents_stay($release);
	dump_is_restored($release);
	library_is_too_old() if $release eq $releases[-1];
	same_cluster($witness, $release);
	$node->stop;
}
done_testing();
