# For tests of upgrades: databases as a released version has left them. scripts/release.sh keeps
# them in data/upgrade/.
package RagUpgrade;

use strict;
use warnings;
use Exporter 'import';
use File::Basename qw(dirname);
use File::Copy qw(copy);
use IPC::Run ();
use PostgreSQL::Test::Utils;
use RagCatalog;
use Test::More;

our @EXPORT = qw(
  @releases kept_of put_key load_dump catalog_of same_catalog same_functions what_is_kept
  works_on);

# Released versions, oldest first.
our @releases = map { m{/([^/]+)/dump\.sql\.gz$} ? $1 : () }
  sort glob "$ENV{RAG_TEST_FILES}/upgrade/*/dump.sql.gz";

# Returns the content of a file that a release has left.
sub kept_of
{
	my ($release, $name) = @_;
	my $content;
	my $file = "$ENV{RAG_TEST_FILES}/upgrade/$release/$name.gz";
	IPC::Run::run([ 'gzip', '-dc', $file ], '>', \$content)
	  or die "cannot read $name of $release";
	return $content;
}

# Gives a cluster that has not been started the key that the dump's secrets are encrypted with.
sub put_key
{
	my ($node, $release) = @_;
	my $folder = $node->data_dir . '/pg_rag';
	-d $folder or mkdir $folder, 0700 or die "cannot create $folder: $!";
	copy("$ENV{RAG_TEST_FILES}/upgrade/$release/secret.key", "$folder/secret.key")
	  or die "cannot copy: $!";
	chmod 0600, "$folder/secret.key";
	return;
}

# Creates a database with the contents of a release. The extension has its version, or the present
# one if it is not created before the dump is restored.
sub load_dump
{
	my ($node, $release, $database, %option) = @_;
	$node->safe_psql('postgres', "CREATE DATABASE $database TEMPLATE template0");
	$node->safe_psql($database, "CREATE EXTENSION rag VERSION '$option{version}'")
	  if $option{version};
	my ($out, $err) = ('', '');
	my $dump = kept_of($release, 'dump.sql');
	IPC::Run::run(
		[
			$node->config_data('--bindir') . '/psql', '--no-psqlrc', '--quiet',
			'--set=ON_ERROR_STOP=1', '--host', $node->host, '--port', $node->port, '--dbname',
			$database
		],
		'<', \$dump, '>', \$out, '2>', \$err);
	is($err, '', "$database: the dump of $release is restored");
	return;
}

# Returns the description of the extension in a database.
sub catalog_of
{
	my ($node, $database) = @_;
	my $queries = slurp_file(dirname(__FILE__) . '/catalog.sql');
	my ($out, $err) = ('', '');
	my $result = $node->psql($database, $queries, stdout => \$out, stderr => \$err);
	die "cannot describe the extension in $database: $err" if $result != 0 || $err ne '';
	return described($out);
}

sub same_catalog
{
	my ($has, $wanted, $name) = @_;
	my @differences = catalog_differences($has, $wanted);
	ok(!@differences, $name)
	  or diag("scripts/upgrade.sh --write adds what the upgrade script lacks:\n",
		map { "$_\n" } @differences);
	return;
}

# The functions of the library by the names of their symbols, with all that the library relies on:
# arguments and results. A released catalog calls the new library until ALTER EXTENSION.
sub functions_of
{
	my ($node, $database) = @_;
	my %of;
	for my $line (
		split /\n/,
		$node->safe_psql(
			$database, q{
		SELECT p.prosrc || '|' || concat_ws(' ', p.proargtypes::regtype[], p.prorettype::regtype,
			p.proretset, p.proallargtypes::regtype[], p.proargmodes,
			CASE WHEN p.proretset THEN p.proargnames[p.pronargs + 1:] END)
		FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang AND l.lanname = 'c'
		JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid
			AND d.deptype = 'e'
		JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'rag' ORDER BY 1}))
	{
		my ($symbol, $signature) = split /\|/, $line, 2;
		$of{$symbol}{$signature} = 1;
	}
	return \%of;
}

# Checks that the library's functions take and return what a released catalog says. A symbol that
# is missing is an error of CREATE EXTENSION VERSION.
sub same_functions
{
	my ($node, $database, $fresh, $name) = @_;
	my ($had, $has) = map { functions_of($node, $_) } $database, $fresh;
	my @changed;
	for my $symbol (sort keys %$had)
	{
		next if !$has->{$symbol};
		my @missing = grep { !$has->{$symbol}{$_} } sort keys %{ $had->{$symbol} };
		push @changed, "$symbol had $_, and has " . join ' or ', sort keys %{ $has->{$symbol} }
		  for @missing;
	}
	ok(!@changed, $name)
	  or diag("a function with another signature needs another name in Rust: see "
		  . "sql/upgrade/README.md\n", map { "$_\n" } @changed);
	return;
}

# What an upgrade must keep: settings, rights, contents and answers. Documents of tea are queued,
# and come when the scheduler works.
sub what_is_kept
{
	my ($node, $database) = @_;
	return $node->safe_psql(
		$database, q{
		SET search_path = public, rag_functions;
		SELECT name, retriever, chunk_size, external_id, text_config, title_weight
			FROM rag.collections ORDER BY name;
		SELECT name, storage_type, spec FROM rag.retrievers ORDER BY name;
		SELECT name, kind, spec, collection, schedule, suspend, last_run_id, phase
			FROM rag.sources ORDER BY name;
		SELECT run_id, source, phase, trigger, documents_added FROM rag.runs ORDER BY run_id;
		SELECT collection, role, privilege FROM rag.collection_grants ORDER BY 1, 2, 3;
		SELECT name, kind, provider, granted_to FROM rag.models ORDER BY name;
		SELECT name FROM rag.secrets; SELECT name, role FROM rag.api_keys;
		SELECT key_id, in_file, encrypted_values FROM rag_secret_keys();
		SELECT * FROM rag_internal.knowledge_item;
		SELECT collection, uri, title, status, content_hash, md5(content), chunk_count, metadata
			FROM rag.documents WHERE uri !~ 'tea' ORDER BY document_id;
		SELECT chunk_id, document_id, chunk_index, content, md5(embedding::text)
			FROM rag.chunks WHERE content !~ '^Tea' ORDER BY chunk_id;
		SELECT uri, round(score::numeric, 6) FROM rag_search('word3 is baked', top_k => 3);
		SELECT uri, round(score::numeric, 6) FROM rag_search('baked', mode => 'keyword',
			filter => '{"team": "bakers"}', top_k => 3);
		SELECT uri, round(score::numeric, 6) FROM rag_search('cakes at night', 'second',
			top_k => 1);
		SELECT id FROM item ORDER BY vector <-> '[0.5,0.5,1]', id LIMIT 5;
		SELECT id, (body <@> 'text 77')::numeric(10, 5) FROM item ORDER BY body <@> 'text 77'
			LIMIT 3});
}

# Checks that a database works: indexes are complete, runs change nothing, documents are added.
sub works_on
{
	my ($node, $database, $how) = @_;
	my $sql = sub { return $node->safe_psql($database, @_) };
	is( $sql->(
			q{SELECT string_agg(i.indexrelid::regclass::text || ': ' || p::text, chr(10))
			FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
			JOIN pg_am a ON a.oid = c.relam AND a.amname IN ('rag_hnsw', 'rag_bm25')
				AND c.relkind = 'i', rag_check_index(c.oid) p}),
		'',
		"$how: the indexes are complete");
	$sql->(q{SELECT rag_sync('articles')});
	is( $sql->(q{SELECT documents_unchanged, documents_added, chunks_embedded FROM rag.runs
			ORDER BY run_id DESC LIMIT 1}),
		'12|0|0',
		"$how: a sync changes nothing");
	$sql->(q{INSERT INTO article VALUES (99, 'Article 99', 'Pretzels are baked.', 'bakers')});
	$sql->(q{SELECT rag_sync('articles')});
	is( $sql->(q{SELECT title FROM rag_search('who bakes pretzels?', top_k => 1)}),
		'Article 99', "$how: the next sync finds a new row");
	is( $sql->(
			q{SELECT success FROM rag_add_document('Tea is made at five.', 'tea',
				collection => 'third')}),
		't',
		"$how: documents are added");
	is($sql->("SELECT drifted FROM rag_check_drift('articles')"), 'f', "$how: nothing has drifted");
	return;
}

1;
