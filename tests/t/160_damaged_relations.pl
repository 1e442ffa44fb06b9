# Pages of every table and index of schema rag are overwritten on disk, one relation after another.
# The error, or the status, names the relation, and the remedy that it names heals the relation.
# Other collections work meanwhile.
use strict;
use warnings;
use Test::More;
use RagCluster;
use PostgreSQL::Test::Utils;

use constant PAGE => 8192;

my $node =
  rag_node('damaged_relations', initdb => ['--data-checksums'], conf => 'autovacuum = off');
my $folder = temp_folder();
write_file("$folder/keys.txt", 'Signing keys are rotated twice a year.');
write_file("$folder/lunch.txt", 'Lunch is at noon.');
$node->safe_psql('postgres', q{SELECT rag_create_collection('dam')});
create_folder_source($node, 'notes', $folder, 'dam');
sync_ok($node, 'notes', 'two documents are synced');
$node->safe_psql('postgres',
	q{SELECT rag_add_document('Rivers flow into the sea.', 'rivers', collection => 'dam')});

# Overwrites all pages of a relation while the server is stopped.
sub damage
{
	my ($relation) = @_;
	my $path = $node->data_dir . '/'
	  . $node->safe_psql('postgres', "SELECT pg_relation_filepath('$relation')");
	$node->safe_psql('postgres', 'CHECKPOINT');
	$node->stop;
	open my $file, '+<:raw', $path or die "$path: $!";
	for my $block (0 .. (-s $path) / PAGE - 1)
	{
		seek $file, $block * PAGE + 100, 0;
		print $file 'damaged ' x 500;
	}
	close $file;
	$node->start;
	return;
}

# The table of a collection. A rebuild gives it another name.
sub table_of
{
	my ($collection) = @_;
	return $node->safe_psql('postgres',
		"SELECT format('rag_internal.%I', partition) FROM rag.collections
			WHERE name = '$collection'");
}

my $state = q{SELECT state FROM rag_collection_status('dam')};
my $keyword =
  q{SELECT string_agg(uri || round(score::numeric, 6), ' ' ORDER BY rank)
		FROM rag_search('rivers of the sea', 'dam', mode => 'keyword')};

sub toast_of
{
	my ($table) = @_;
	return $node->safe_psql('postgres',
		"SELECT reltoastrelid::regclass FROM pg_class WHERE oid = '$table'::regclass");
}

# -- the keyword index: keyword searches stay keyword searches
my $expected = $node->safe_psql('postgres', $keyword);
damage('rag_internal.rag_kb_dam_expr_idx');
my ($result, $out, $err) = $node->psql('postgres', $keyword);
is($out, $expected, 'a keyword search over the table returns what the index did');
like($err, qr/WARNING:.*the search read the table/, 'it warns about the index');
unlike($err, qr/was used instead/, 'the mode of the search stays');
is($node->safe_psql('postgres', $state), 'damaged', 'the collection is damaged');
my $added =
  q{SELECT success FROM rag_add_document('fresh text', 'f%s', collection => 'fresh%s')};
$node->safe_psql('postgres', q{SELECT rag_create_collection('fresh1')});
create_folder_source($node, 'fresh1', $folder, 'fresh1');
sync_ok($node, 'fresh1', 'a sync into an empty collection while another is damaged');
$node->safe_psql('postgres', 'REINDEX TABLE rag_internal.rag_kb_dam');
is($node->safe_psql('postgres', $state), 'ready', 'REINDEX heals it');
is($node->safe_psql('postgres', 'SELECT count(*) FROM rag.damage'),
	'0', 'the mark is deleted when marks are read');
$node->safe_psql('postgres', q{SELECT rag_create_collection('fresh2')});
create_folder_source($node, 'fresh2', $folder, 'fresh2');
sync_ok($node, 'fresh2', 'a sync into an empty collection after the REINDEX');

# -- the table: a rebuild heals it
my $search = q{SELECT count(*) FROM rag_search('when is lunch?', 'dam')};
for my $healer ('rebuild', 'sync')
{
	damage(table_of('dam'));
	error_like(
		run_sql($node, $search),
		'XX001',
		'data of collection "dam" is corrupted',
		'rag_rebuild_collection',
		"$healer: a damaged table is an error that names the remedy");
	is($node->safe_psql('postgres', $state),
		'damaged', "$healer: the mark of the table outlives the failed statement");
	is( $node->safe_psql(
			'postgres', q{SELECT count(*) > 0 FROM rag_search('when is lunch?', 'fresh1')}),
		't', "$healer: another collection can be searched");
	if ($healer eq 'rebuild')
	{
		$node->safe_psql('postgres', q{CALL rag_rebuild_collection('dam')});
	}
	else
	{
		sync_ok($node, 'notes', 'a sync of a damaged table');
	}
	is($node->safe_psql('postgres', $state), 'ready', "$healer: the collection is ready");
	is($node->safe_psql('postgres', $search), '3', "$healer: all documents are found");
}

# -- the table: a source is dropped, and its documents stay
damage(table_of('fresh1'));
$node->safe_psql('postgres', q{SELECT rag_drop_source('fresh1')});
is( $node->safe_psql('postgres', q{SELECT count(*), count(source), min(former_source)
		FROM rag.documents WHERE collection = 'fresh1'}),
	'2|0|fresh1', 'documents of a damaged table stay when their source is dropped');
is($node->safe_psql('postgres', q{SELECT state FROM rag_collection_status('fresh1')}),
	'damaged', 'the damage is noticed');
$node->safe_psql('postgres', q{CALL rag_rebuild_collection('fresh1')});
is( $node->safe_psql('postgres', q{SELECT count(*), count(source), min(former_source)
		FROM rag.chunks WHERE collection = 'fresh1'}),
	'2|0|fresh1', 'a rebuild makes their chunks again');

# -- the table: drops do not read it
damage(table_of('fresh2'));
$node->safe_psql('postgres', q{SELECT rag_drop_collection('fresh2', with_sources => true)});
is($node->safe_psql('postgres', q{SELECT count(*) FROM rag.documents WHERE collection = 'fresh2'}),
	'0', 'a collection with a damaged table can be dropped with its sources');

# -- a table that several collections share
my $long = q{(SELECT string_agg(md5(i::text), ' ') FROM generate_series(1, 300) AS i)};
$node->safe_psql(
	'postgres', qq{
	SELECT rag_create_retriever('together', '{"storageConfig": {"indexStrategy":
		{"mode": "fixed", "fixedName": "Together"}}}');
	SELECT rag_create_collection('sea', retriever => 'together');
	SELECT rag_create_collection('land', retriever => 'together');
	SELECT rag_add_document('Rivers flow into the sea. ' || $long, 'rivers', collection => 'sea');
	SELECT rag_add_document('Roads lead to Rome. ' || $long, 'roads', collection => 'land')});
my $shared = table_of('sea');
is(table_of('land'), $shared, 'two collections share a table');
# chunks of an application have no text to make them from again
my $given = q{SELECT rag_upsert_chunks('[{"uri": "given", "text": "Given to the land.",
	"chunk_id": "00000000-0000-0000-0000-000000000001"}]', 'land')};
$node->safe_psql('postgres', $given);
my $of_given = q{SELECT status, error, chunk_count FROM rag.documents WHERE uri = 'given'};
my $of_shared = q{SELECT string_agg(format('%s %s', collection, chunks), ', ' ORDER BY collection)
	FROM (SELECT collection, count(*) AS chunks FROM rag.chunks
		WHERE collection IN ('land', 'sea') AND uri <> 'given' GROUP BY collection) AS c};
my $written = $node->safe_psql('postgres', $of_shared);
for my $relation ($shared, toast_of($shared))
{
	cmp_ok($node->safe_psql('postgres', "SELECT pg_relation_size('$relation')"),
		'>', 0, "$relation has pages");
	damage($relation);
	my $searched = run_sql($node, q{SELECT * FROM rag_search('rivers', 'sea', top_k => 100)});
	my ($remedy) = $searched->{err} =~ /^HINT:  .*?As a superuser, (.*;)$/m;
	like($remedy, qr/rebuild_collection\('land'\);.*rebuild_collection\('sea'\);/,
		"$relation: the remedy names both collections")
	  or diag $searched->{err};
	is( $node->safe_psql('postgres',
			q{SELECT string_agg(name, ', ' ORDER BY name) FROM rag_collection_status()
				WHERE state = 'damaged'}),
		'land, sea',
		"$relation: both are damaged");
	is( $node->safe_psql(
			'postgres', q{SELECT count(*) > 0 FROM rag_search('when is lunch?', 'dam')}),
		't',
		"$relation: another collection can be searched");
	$remedy =~ s/then //;
	$node->safe_psql('postgres', $remedy);
	is($node->safe_psql('postgres', $of_shared),
		$written, "$relation: the remedy heals both collections");
	is( $node->safe_psql(
			'postgres', q{SELECT count(*) FROM rag_collection_status() WHERE state = 'damaged'}),
		'0', "$relation: no collection is damaged");
	my $loss = 'error|its chunks are lost, write them again: 1 of 1|0';
	is( $node->safe_psql('postgres', $of_given),
		$relation eq $shared ? $loss : 'active||1',
		"$relation: a document without a text tells its loss");
	$node->safe_psql('postgres', $given);
	is($node->safe_psql('postgres', $of_given),
		'active||1', "$relation: its application writes it again");
}

# -- the other relations
my $reads = q{SELECT count(*) FROM (SELECT * FROM rag_status()) s,
	(SELECT count(*) FROM rag_collection_status()) c};
my @relations = split /\n/, $node->safe_psql('postgres', q{
	SELECT concat_ws(' ', c.oid::regclass, c.relkind, t.oid::regclass) FROM pg_class c
	LEFT JOIN pg_index i ON i.indexrelid = c.oid AND c.relnamespace <> 'pg_toast'::regnamespace
	JOIN pg_class t ON t.oid = coalesce(i.indrelid, c.oid) AND c.relkind IN ('r', 'i')
		OR t.reltoastrelid = c.oid
	WHERE t.relnamespace IN ('rag'::regnamespace, 'rag_internal'::regnamespace)
	  AND pg_relation_size(c.oid) > 0
	  AND NOT EXISTS (SELECT FROM pg_inherits h WHERE h.inhrelid = t.oid)
	ORDER BY c.relkind = 'r', c.relname <> 'documents', 1});
cmp_ok(scalar @relations, '>', 20, 'there are relations to damage');
# Returns true if pages of a relation are as damage() has written them.
sub is_damaged
{
	my ($relation) = @_;
	$node->safe_psql('postgres', 'CHECKPOINT');
	my $path = $node->data_dir . '/'
	  . $node->safe_psql('postgres', "SELECT pg_relation_filepath('$relation')");
	return slurp_file($path) =~ /damaged damaged/;
}

for my $line (@relations)
{
	my ($relation, $kind, $table) = split ' ', $line;
	damage($relation);
	my $is_documents = $relation =~ /^rag\.documents/;
	my $problem = "page of \"" . ($relation =~ s/^rag(_internal)?\.//r) . "\"";
	(undef, undef, $problem) =
	  $node->psql('postgres', "SELECT count(*) FROM $table t WHERE t::text <> ''")
	  if $kind ne 'i';
	my $explained = "FROM rag_internal.explain_damage(\$\$$problem\$\$)";
	my $remedy = $node->safe_psql('postgres', "SELECT remedy $explained");
	my $named = $kind eq 'i' ? $relation : $table;
	like($remedy, qr/\Q$named\E/, "$relation: the remedy names $named");
	is( $node->safe_psql(
			'postgres', q{SELECT count(*) > 0 FROM rag_search('when is lunch?', 'dam')}),
		't', "$relation: searches go on") if $is_documents;
	my ($ok) = $node->psql('postgres', $reads);
	is($ok, 0, "$relation: the status can be read") if $is_documents;
	$remedy =~ s/.*superuser: //s;
	my ($healed, undef, $why) = $node->psql('postgres', $remedy);
	is($healed, 0, "$relation: its remedy can be run") or diag $why;
	ok(!is_damaged($relation), "$relation: it is healed");
}

# -- marks cannot be forged: what a role says of a relation is no damage
$node->safe_psql(
	'postgres', q{
	CREATE ROLE forger IN ROLE rag_reader;
	SET ROLE forger;
	SELECT rag_internal.explain_damage('invalid page of "documents"')});
is($node->safe_psql('postgres', "SELECT count(*) FROM rag.damage WHERE relation = 'rag.documents'"),
	'0', 'a text marks nothing');

done_testing();
