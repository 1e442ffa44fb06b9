# Manifests that several sessions apply at the same time, as application servers do that start
# together.
use strict;
use warnings;

use RagCluster;
use RagTest ();
use Test::More;

my $node = rag_node('apply');
my $witness = witness($node);
my $folder = RagTest::handbook();

sub sql { return $node->safe_psql('postgres', @_) }

# A manifest of a source; fields: collection, retriever, timeout, schedule.
sub source
{
	my ($name, %field) = @_;
	my %given = (collection => 'guides', retriever => 'exact', timeout => '1h', schedule => '@daily', %field);
	return <<YAML;
{apiVersion: rag/v1, kind: AutoIndexer, metadata: {name: $name}, spec: {ragEngineRef: {name: $given{retriever}}, indexName: $given{collection},
 dataSource: {type: Folder, folder: {path: $folder}}, timeout: $given{timeout}, schedule: '$given{schedule}'}}
YAML
}

sub retriever { return "{apiVersion: rag/v1, kind: Retriever, metadata: {name: $_[0]}, spec: {storageConfig: {type: flat}}}\n" }

sub applying { return q{SELECT string_agg(kind || ' ' || name || ' ' || action, ', ' ORDER BY i) FROM rag_apply($yaml$} . join("---\n", @_) . q{$yaml$) WITH ORDINALITY AS a (kind, name, action, i)} }

sub apply { return start_sql($node, applying(@_)) }

sub result_is
{
	my ($session, $expected, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $result = $session->finish;
	return is($result->{out}, $expected, $name) || diag($result->{err});
}

subtest 'the same new documents' => sub {
	my @documents = (source('guide'), retriever('exact'));
	my $first = session($node);
	$first->query('BEGIN');
	is($first->query(applying(@documents)), 'AutoIndexer guide created, Retriever exact created', 'the first session makes what they describe');
	my $same = apply(@documents);
	$same->await_locked;
	$first->query('COMMIT');
	result_is($same, 'AutoIndexer guide unchanged, Retriever exact unchanged', 'the second finds it there');
};

subtest 'documents of the same new source' => sub {
	my $first = session($node);
	$first->query('BEGIN');
	$first->query(applying(source('manual')));
	my $other = apply(source('manual', schedule => '@hourly'));
	$other->await_locked;
	$first->query('COMMIT');
	result_is($other, 'AutoIndexer manual configured', 'the second session alters what the first one made');
	is(sql(q{SELECT schedule, generation FROM rag.sources WHERE name = 'manual'}), '@hourly|2', 'as its own document says');

	$first->query('BEGIN');
	$first->query(applying(source('leaflet')));
	$other = apply(source('leaflet'));
	$other->await_locked;
	$first->query('ROLLBACK');
	result_is($other, 'AutoIndexer leaflet created', 'or makes it, where the first one thinks better of it');

	$first->query('BEGIN');
	$first->query(q{SELECT rag_drop_source('leaflet')});
	$other = apply(source('leaflet'));
	$other->await_locked;
	$first->query('COMMIT');
	result_is($other, 'AutoIndexer leaflet created', 'or drops it');
};

subtest 'sources of the same new collection' => sub {
	my $first = session($node);
	$first->query('BEGIN');
	$first->query(applying(source('east', collection => 'maps')));
	my $same = apply(source('west', collection => 'maps'));
	$same->await_locked;
	$first->query('COMMIT');
	result_is($same, 'AutoIndexer west created', 'the second session fills the collection that the first one made');

	$first->query('BEGIN');
	$first->query(applying(source('north', collection => 'charts')));
	my $other = apply(source('south', collection => 'charts', retriever => 'default'));
	$other->await_locked;
	$first->query('COMMIT');
	error_like($other->finish, '55000', 'spec.ragEngineRef.name: collection "charts" has retriever "exact", not "default"', undef,
		'unless that has another retriever');
};

subtest 'the same documents in another order' => sub {
	# each session would have its first document locked, and wait for the second one's of the other
	sql(applying(map { source($_) } qw(alpha beta middle-1 middle-2)));
	my $third = session($node);
	$third->query('BEGIN');
	$third->query(q{SELECT rag_alter_source(name, max_retries => 1) FROM unnest('{middle-1,middle-2}'::text[]) AS name});
	my $first = apply(map { source($_, timeout => '2h') } qw(alpha middle-1 beta));
	$first->await_locked;
	my $second = apply(map { source($_, timeout => '3h') } qw(beta middle-2 alpha));
	$second->await_locked;
	$third->query('COMMIT');
	result_is($first, 'AutoIndexer alpha configured, AutoIndexer middle-1 configured, AutoIndexer beta configured', 'the first session is done');
	result_is($second, 'AutoIndexer beta configured, AutoIndexer middle-2 configured, AutoIndexer alpha configured', 'and the second');

	$third->query('BEGIN');
	$third->query(q{SELECT rag_create_collection(name, 'exact') FROM unnest('{middle-1,middle-2}'::text[]) AS name});
	my @collections = qw(left middle-1 right);
	$first = apply(map { source("to-$_", collection => $_) } @collections);
	$first->await_locked;
	# sources of other names, the first of which fills the last collection
	my %fills = (bottom => 'right', centre => 'middle-2', top => 'left');
	$second = apply(map { source($_, collection => $fills{$_}) } sort keys %fills);
	$second->await_locked;
	$third->query('COMMIT');
	result_is($first, 'AutoIndexer to-left created, AutoIndexer to-middle-1 created, AutoIndexer to-right created', 'so it is of new collections: the first session is done');
	result_is($second, 'AutoIndexer bottom created, AutoIndexer centre created, AutoIndexer top created', 'and the second');
};

subtest 'a role that may nothing' => sub {
	sql('CREATE ROLE reader LOGIN IN ROLE rag_reader');
	my $first = session($node);
	$first->query('BEGIN');
	$first->query(q{SELECT rag_suspend('alpha')});
	error_like(run_sql($node, "SET lock_timeout = '2s'; $_->[1]", user => 'reader'), '42501', 'permission denied', undef, "does not wait: $_->[0]")
	  for [ 'apply', applying(source('alpha')) ], [ 'alter', q{SELECT rag_alter_source('alpha', max_retries => 7)} ],
	  [ 'resume', q{SELECT rag_resume('alpha')} ], [ 'drop', q{SELECT rag_drop_source('alpha')} ];
	$first->query('ROLLBACK');
};

same_cluster($witness, 'all of it');
$node->stop;
done_testing();
