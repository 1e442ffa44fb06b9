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
sync_ok($node, 'notes', 'two documents');
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
		"SELECT format('rag.%I', partition) FROM rag.collections WHERE name = '$collection'");
}

my $state = q{SELECT state FROM rag_collection_status('dam')};
my $keyword =
  q{SELECT string_agg(uri || round(score::numeric, 6), ' ' ORDER BY rank)
		FROM rag_search('rivers of the sea', 'dam', mode => 'keyword')};

# -- the keyword index: keyword searches stay keyword searches
my $expected = $node->safe_psql('postgres', $keyword);
damage('rag.rag_kb_dam_expr_idx');
my ($result, $out, $err) = $node->psql('postgres', $keyword);
is($out, $expected, 'a keyword search over the table returns what the index did');
like($err, qr/WARNING:.*the search read the table/, 'it warns about the index');
unlike($err, qr/was used instead/, 'the mode stays');
is($node->safe_psql('postgres', $state), 'damaged', 'the collection is damaged');
my $added =
  q{SELECT success FROM rag_add_document('fresh text', 'f%s', collection => 'fresh%s')};
$node->safe_psql('postgres', q{SELECT rag_create_collection('fresh1')});
create_folder_source($node, 'fresh1', $folder, 'fresh1');
sync_ok($node, 'fresh1', 'a sync into an empty collection while another is damaged');
$node->safe_psql('postgres', 'REINDEX TABLE rag.rag_kb_dam');
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

# -- the other relations
my $reads = q{SELECT count(*) FROM (SELECT * FROM rag_status()) s,
	(SELECT count(*) FROM rag_collection_status()) c};
my @relations = split /\n/, $node->safe_psql('postgres', q{
	SELECT c.oid::regclass || ' ' || c.relkind::text FROM pg_class c
	LEFT JOIN pg_index i ON i.indexrelid = c.oid
	JOIN pg_class t ON t.oid = coalesce(i.indrelid, c.oid)
	WHERE c.relnamespace = 'rag'::regnamespace AND c.relkind IN ('r', 'i')
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
	my ($relation, $kind) = split ' ', $line;
	damage($relation);
	my $is_documents = $relation =~ /^rag\.documents/;
	my $problem = "page of \"" . ($relation =~ s/^rag\.//r) . "\"";
	(undef, undef, $problem) =
	  $node->psql('postgres', "SELECT count(*) FROM $relation t WHERE t::text <> ''")
	  if $kind eq 'r';
	my $explained = "FROM rag.explain_damage(\$\$$problem\$\$)";
	my $remedy = $node->safe_psql('postgres', "SELECT remedy $explained");
	like($remedy, qr/\Q$relation\E/, "$relation: the remedy names it");
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
	SELECT rag.explain_damage('invalid page of "documents"')});
is($node->safe_psql('postgres', "SELECT count(*) FROM rag.damage WHERE relation = 'rag.documents'"),
	'0', 'a text marks nothing');

done_testing();
