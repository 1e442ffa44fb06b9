# Several sessions apply manifests at the same time, like application servers that start together.
use strict;
use warnings;

use RagCluster;
use RagTest ();
use Test::More;

my $node = rag_node('apply');
my $witness = witness($node);
my $folder = RagTest::handbook();

sub sql { return $node->safe_psql('postgres', @_) }

# The manifest of a source; fields: collection, retriever, timeout, schedule.
sub source
{
	my ($name, %field) = @_;
	my %given = (
		collection => 'guides',
		retriever => 'exact',
		timeout => '1h',
		schedule => '@daily',
		%field);
	return <<YAML;
{apiVersion: rag/v1, kind: AutoIndexer, metadata: {name: $name},
spec: {ragEngineRef: {name: $given{retriever}}, indexName: $given{collection},
 dataSource: {type: Folder, folder: {path: $folder}}, timeout: $given{timeout},
 schedule: '$given{schedule}'}}
YAML
}

sub retriever
{
	return "{apiVersion: rag/v1, kind: Retriever, metadata: {name: $_[0]},
	  spec: {storageConfig: {type: flat}}}\n";
}

sub applying
{
	return q{SELECT string_agg(kind || ' ' || name || ' ' || action, ', ' ORDER BY i)
	  FROM rag_apply_manifest($yaml$}
	  . join("---\n", @_) . q{$yaml$) WITH ORDINALITY AS a (kind, name, action, i)};
}

sub apply { return start_sql($node, applying(@_)) }

sub result_is
{
	my ($session, $expected, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $result = $session->finish;
	return is($result->{out}, $expected, $name) || diag($result->{err});
}

subtest 'two sessions apply the same new documents' => sub {
	my @documents = (source('guide'), retriever('exact'));
	my $first = session($node);
	$first->query('BEGIN');
	is( $first->query(applying(@documents)),
		'AutoIndexer guide created, Retriever exact created',
		'the first session creates the objects');
	my $same = apply(@documents);
	$same->await_locked;
	$first->query('COMMIT');
	result_is(
		$same,
		'AutoIndexer guide unchanged, Retriever exact unchanged',
		'the second session finds the objects unchanged');
};

subtest 'two sessions apply documents of the same new source' => sub {
	my $first = session($node);
	$first->query('BEGIN');
	$first->query(applying(source('manual')));
	my $other = apply(source('manual', schedule => '@hourly'));
	$other->await_locked;
	$first->query('COMMIT');
	result_is(
		$other,
		'AutoIndexer manual configured',
		'the second session changes the source of the first');
	is(sql(q{SELECT schedule, generation FROM rag.sources WHERE name = 'manual'}),
		'@hourly|2', 'the source has the definition of the second session');

	$first->query('BEGIN');
	$first->query(applying(source('leaflet')));
	$other = apply(source('leaflet'));
	$other->await_locked;
	$first->query('ROLLBACK');
	result_is(
		$other,
		'AutoIndexer leaflet created',
		'the second session creates the source if the first rolls back');

	$first->query('BEGIN');
	$first->query(q{SELECT rag_drop_source('leaflet')});
	$other = apply(source('leaflet'));
	$other->await_locked;
	$first->query('COMMIT');
	result_is(
		$other,
		'AutoIndexer leaflet created',
		'the second session can drop the source of the first');
};

subtest 'two sessions apply sources of the same new collection' => sub {
	my $first = session($node);
	$first->query('BEGIN');
	$first->query(applying(source('east', collection => 'maps')));
	my $same = apply(source('west', collection => 'maps'));
	$same->await_locked;
	$first->query('COMMIT');
	result_is(
		$same,
		'AutoIndexer west created',
		'the second session uses the collection of the first');

	$first->query('BEGIN');
	$first->query(applying(source('north', collection => 'charts')));
	my $other = apply(source('south', collection => 'charts', retriever => 'default'));
	$other->await_locked;
	$first->query('COMMIT');
	error_like(
		$other->finish,
		'55000',
		'spec.ragEngineRef.name: collection "charts" has retriever "exact", not "default"',
		undef,
		'the second session is rejected if the collection has another retriever');
};

subtest 'two sessions apply the same documents in different order' => sub {
	# otherwise each session would have locked its first document and wait for the second, which the
	# other has locked
	sql(applying(map { source($_) } qw(alpha beta middle-1 middle-2)));
	my $third = session($node);
	$third->query('BEGIN');
	$third->query(
		q{SELECT rag_alter_source(name, max_retries => 1)
		FROM unnest('{middle-1,middle-2}'::text[]) AS name}
	);
	my $first = apply(map { source($_, timeout => '2h') } qw(alpha middle-1 beta));
	$first->await_locked;
	my $second = apply(map { source($_, timeout => '3h') } qw(beta middle-2 alpha));
	$second->await_locked;
	$third->query('COMMIT');
	result_is(
		$first,
		'AutoIndexer alpha configured, AutoIndexer middle-1 configured, '
		  . 'AutoIndexer beta configured',
		'the first session succeeds');
	result_is(
		$second,
		'AutoIndexer beta configured, AutoIndexer middle-2 configured, '
		  . 'AutoIndexer alpha configured',
		'the second session succeeds without a deadlock');

	$third->query('BEGIN');
	$third->query(
		q{SELECT rag_create_collection(name, 'exact')
		FROM unnest('{middle-1,middle-2}'::text[]) AS name}
	);
	my @collections = qw(left middle-1 right);
	$first = apply(map { source("to-$_", collection => $_) } @collections);
	$first->await_locked;
	# sources of other names, the first of which uses the last collection
	my %fills = (bottom => 'right', centre => 'middle-2', top => 'left');
	$second = apply(map { source($_, collection => $fills{$_}) } sort keys %fills);
	$second->await_locked;
	$third->query('COMMIT');
	result_is(
		$first,
		'AutoIndexer to-left created, AutoIndexer to-middle-1 created, '
		  . 'AutoIndexer to-right created',
		'the first session creates several collections');
	result_is(
		$second,
		'AutoIndexer bottom created, AutoIndexer centre created, AutoIndexer top created',
		'the second session uses the new collections without a deadlock');
};

subtest 'a role without privileges does not wait' => sub {
	sql('CREATE ROLE reader LOGIN IN ROLE rag_reader');
	my $first = session($node);
	$first->query('BEGIN');
	$first->query(q{SELECT rag_suspend('alpha')});
	error_like(
		run_sql($node, "SET lock_timeout = '2s'; $_->[1]", user => 'reader'),
		'42501', 'permission denied',
		undef, "a role without privileges does not wait: $_->[0]")
	  for [ 'apply', applying(source('alpha')) ],
	  [ 'alter', q{SELECT rag_alter_source('alpha', max_retries => 7)} ],
	  [ 'resume', q{SELECT rag_resume('alpha')} ], [ 'drop', q{SELECT rag_drop_source('alpha')} ];
	$first->query('ROLLBACK');
};

same_cluster($witness, 'all tests of concurrent rag_apply_manifest');
$node->stop;
done_testing();
