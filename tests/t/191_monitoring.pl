# What a monitoring system sees: members of pg_monitor read states, counts and sizes of all
# databases and no contents. A real Prometheus scrapes them through rag-gateway, accepts the alert
# rules, and knows each query of the board.
use strict;
use warnings;
use HTTP::Tiny;
use JSON::PP qw(decode_json);
use PostgreSQL::Test::Utils;
use Test::More;
use RagCluster;
use RagGateway;

my $secret = 'xyzzyplugh';
my $node = rag_node(
	'monitoring',
	scheduler => 1,
	conf => "rag.allowed_private_hosts = '127.0.0.1'\nrag.embedding_cache_size = '1MB'");
my $folder = temp_folder();
write_file("$folder/$secret.md", "# About $secret\n\nThe word $secret is in the text.");
write_file("$folder/$secret.pdf", "no pdf, but $secret");
$node->safe_psql(
	'postgres', qq{
	CREATE DATABASE other;
	CREATE ROLE mon LOGIN IN ROLE pg_monitor;
	CREATE ROLE reader LOGIN IN ROLE rag_reader;
	CREATE ROLE boss LOGIN IN ROLE rag_admin;
	SELECT rag_create_collection('kept');
	SELECT rag_create_source('files', 'folder',
		'{"path": "$folder", "excludePaths": ["$secret.not"]}', 'kept');
	SELECT rag_sync('files');
	SELECT rag_sync('files');
	CREATE TABLE texts (id int PRIMARY KEY, body text);
	INSERT INTO texts VALUES (1, '$secret');
	SELECT rag_create_source('texts', 'table', '{"relation": "texts"}', 'kept',
		max_retries => 0);
	SELECT rag_sync('texts');
	ALTER TABLE texts RENAME body TO "$secret";
	SELECT rag_create_secret('token', '$secret');
	SELECT rag_enqueue_document('queued $secret', '$secret:queued', collection => 'kept');
	SELECT count(*) FROM rag_search('$secret', 'kept')});
run_sql($node, "SELECT rag_sync('texts')");
run_sql($node, "SELECT rag_check_drift('files')");
$node->safe_psql('other', q{CREATE EXTENSION rag; SELECT rag_create_collection('elsewhere');
	SELECT rag_add_document('Hello there.', 'note:1', collection => 'elsewhere')});

sub as
{
	my ($role, $query, $database) = @_;
	return $node->safe_psql($database // 'postgres', $query,
		extra_params => [ '-U', $role ]);
}

# -- what a monitor reads
# ----------------------------------------

my %needs = (
	'rag.metrics' => 40, 'rag.runs' => 3, 'rag.search_stats' => 1, 'rag.progress' => 0,
	'rag.collection_sizes' => 2, 'rag.relation_sizes' => 20, 'rag_status()' => 2);
cmp_ok(as('mon', "SELECT count(*) FROM $_"), '>=', $needs{$_}, "a monitor reads $_")
  for sort keys %needs;
my $readable = as('mon', q{SELECT string_agg(name, ' ' ORDER BY name)
	FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace,
	LATERAL (SELECT c.oid::regclass::text) AS r (name)
	WHERE n.nspname IN ('rag', 'rag_internal', 'rag_api') AND c.relkind IN ('r', 'v', 'p', 'S')
	AND has_table_privilege(c.oid, 'SELECT')});
is($readable,
	'rag.collection_sizes rag.damage rag.embedding_cache rag.metrics rag.progress '
	  . 'rag.relation_sizes rag.runs rag.search_stats rag_internal.monitored_collection '
	  . 'rag_internal.monitored_sources',
	'these are all views that it can read');
my $values = join ' UNION ALL ',
  map { "SELECT t::text FROM $_ t" } split(/ /, $readable), 'rag_status()';
like($node->safe_psql('postgres', $values), qr/$secret/, 'an administrator sees contents in them');
my $seen = as('mon', $values);
unlike($seen, qr/$secret/, 'a monitor does not');
like($seen, qr/source texts.*the last run failed: SQLSTATE 42703/, 'it learns what kind of error');
like($seen, qr/source files.*1 document could not be indexed/, '... and counts');
for my $denied (
	'SELECT * FROM rag.documents', 'SELECT * FROM rag.chunks', 'SELECT * FROM rag.sources',
	'SELECT * FROM rag.run_errors', 'SELECT * FROM rag.secrets', 'SELECT * FROM rag.api_keys',
	'SELECT * FROM rag.queued_documents', 'SELECT * FROM rag_internal.run',
	'SELECT * FROM rag.collections', "SELECT rag_search('$secret', 'kept')",
	"SELECT rag_sync('files')", 'SELECT rag_reset_search_stats()',
	q{SELECT rag_get_manifest('files')})
{
	error_like(run_sql($node, "SET ROLE mon; $denied"),
		'42501', qr/permission denied/, undef, $denied);
}
is(as('mon', q{SELECT string_agg(name || ' ' || value, ', ' ORDER BY name) FROM rag.metrics
	WHERE labels ->> 'collection' = 'kept'
	AND name IN ('rag_chunks', 'rag_documents', 'rag_document_errors')}),
	$node->safe_psql('postgres', q{SELECT string_agg(name || ' ' || value, ', ' ORDER BY name)
	FROM rag.metrics WHERE labels ->> 'collection' = 'kept'
	AND name IN ('rag_chunks', 'rag_documents', 'rag_document_errors')}),
	'its counts are those of an administrator');
is( as('reader', q{SELECT count(*) FROM rag.metrics WHERE labels ->> 'collection' = 'kept'}),
	'0',
	'a reader does not see what it may not read');
is(as('reader', q{SELECT count(*) FROM rag.runs}), '0', '... nor runs');
$node->safe_psql('postgres', 'GRANT rag_reader TO mon');
unlike(as('mon', $values), qr/$secret/, 'a monitor that is a reader, too, sees no more');
is(as('mon', 'SELECT count(*) FROM rag.sources'), '0', '... and no definition');
error_like(run_sql($node, "SET ROLE mon; SELECT rag_sync('files')"), '42501',
	qr/permission denied to sync a source/, undef, '... and cannot sync what it monitors');
$node->safe_psql('postgres', 'REVOKE rag_reader FROM mon');

# -- all of it adds up
# ----------------------------------------

is(ask($node, q{SELECT sum(total_bytes) = (SELECT sum(pg_total_relation_size(c.oid))
		FROM pg_class c WHERE c.relkind IN ('r', 'm', 'S')
		AND c.relnamespace IN (SELECT oid FROM pg_namespace WHERE nspname LIKE 'rag%'))
	AND sum(total_bytes) = sum(table_bytes + toast_bytes + index_bytes)
	AND sum(total_bytes) = (SELECT value FROM rag.metrics WHERE name = 'rag_database_bytes')
	FROM rag.relation_sizes}), 't', 'the sizes are those of all tables and indexes');

# -- the text of all databases
# ----------------------------------------

my $text = 'SELECT rag_metrics_text()';
await('the metrics of the other database are there',
	sub { as('mon', $text) =~ /^rag_documents\{database="other",collection="elsewhere"\} 1$/m });
my $all = as('mon', $text);
like($all, qr/^rag_documents\{database="postgres",collection="kept"\} [23]$/m,
	'those of this one, too');
like($all, qr/^# TYPE rag_searches counter\n# HELP rag_searches .*\nrag_searches_total\{/m,
	'counters are declared');
like($all, qr/^# UNIT rag_search_duration_seconds seconds$/m, 'units are declared');
like($all, qr/_bucket\{database="postgres",collection="kept",mode="hybrid",le="\+Inf"\} 1$/m,
	'searches are in a histogram');
like($all, qr/^rag_engine_up 1$/m, 'the engine is up');
like($all, qr/^rag_engine_resident_memory_bytes \d{7,}$/m, '... and has memory');
like($all, qr/^rag_run_slots 2$/m, 'slots are there');
like($all, qr/^# EOF$/m, 'the text has an end');
is(scalar(() = $all =~ /^rag_engine_up/mg), 1, 'values of the server are there once');
unlike($all, qr/$secret/, 'no contents are in it');
my $of_reader = as('reader', $text);
unlike($of_reader, qr/elsewhere|^rag_engine_up|"kept"/m, 'others get what they can read');
like(as('mon', $text, 'other'), qr/database="other",collection="elsewhere"/,
	'each database answers');
await('it has those of the first',
	sub { as('mon', $text, 'other') =~ /database="postgres",collection="kept"/ });
$node->safe_psql('postgres', 'DROP DATABASE other');
unlike(as('mon', $text), qr/"other"/, 'a database that was dropped is left out');
$node->safe_psql('postgres', 'CREATE DATABASE other');

# a histogram keeps the runs that are deleted
my $histogram = q{SELECT string_agg(name || coalesce(labels ->> 'le', '') || ' '
	|| CASE WHEN name LIKE '%sum' THEN '' ELSE value::text END, ',' ORDER BY name, labels)
	FROM rag.metrics WHERE name LIKE 'rag_run_duration%' AND labels ->> 'source' = 'files'};
my $before = ask($node, $histogram);
$node->safe_psql('postgres', q{DELETE FROM rag_internal.run WHERE source = 'files'
	AND run_id < (SELECT max(run_id) FROM rag_internal.run WHERE source = 'files')});
is(ask($node, $histogram), $before, 'deleted runs stay in the histogram');

# the engine is killed
my $starts = sub {
	as('mon', q{SELECT value FROM rag.metrics WHERE name = 'rag_engine_starts_total'});
};
my $count = $starts->();
kill 'KILL', engine_pid($node, 'embed');
await('a start of the engine is counted', sub { $starts->() > $count });

# -- a real Prometheus
# ----------------------------------------

$ENV{PATH} .= ":$ENV{RAG_TEST_PROMETHEUS}" if $ENV{RAG_TEST_PROMETHEUS};
my ($prometheus) = grep { -x } map { "$_/prometheus" } split /:/, $ENV{PATH};
if (!$prometheus)
{
	note 'Prometheus is not installed';
	done_testing();
	exit;
}
my $monitoring = "$ENV{RAG_TEST_PAGES}/monitoring";
my $gateway = RagGateway->start($node);
my $key = $gateway->key('mon', 'prometheus');
my $work = temp_folder();
chmod 0755, $work;
my $scraped = $gateway->ok($key, GET => '/metrics');
is($gateway->{response}{headers}{'content-type'}, 'text/plain; version=0.0.4; charset=utf-8',
	'the text is in the format of Prometheus');
write_file("$work/metrics", $scraped);
my $lint = qx{promtool check metrics <$work/metrics 2>&1};
is($? >> 8, 0, 'promtool accepts it') or diag($lint);
is($lint, '', '... without remarks');
$scraped = $gateway->ok($key, 'GET', '/metrics', undef,
	Accept => 'application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5');
like($gateway->{response}{headers}{'content-type'}, qr/^application\/openmetrics-text/,
	'OpenMetrics is there on request');
like($scraped, qr/rag_gateway_requests_total\{.*# TYPE rag_searches counter.*# EOF\n\z/s,
	'... of gateway and databases');
SKIP:
{
	skip 'python3 has no prometheus_client', 1
	  if system(q{python3 -c 'import prometheus_client' 2>/dev/null}) != 0;
	write_file("$work/openmetrics", $scraped);
	my $parsed = qx{python3 -c 'import sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
print(len(list(parse(sys.stdin.read()))) > 40)' <$work/openmetrics 2>&1};
	is($parsed, "True\n", 'a strict parser accepts it');
}

is(system("promtool check rules $monitoring/rag.rules.yml >$work/out 2>&1"),
	0, 'the rules are valid') or diag(slurp_file("$work/out"));
is(system("promtool test rules $monitoring/rag.rules.test.yml >$work/out 2>&1"),
	0, 'their tests pass') or diag(slurp_file("$work/out"));

my $port = PostgreSQL::Test::Cluster::get_free_port();
write_file("$work/prometheus.yml", <<YAML);
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [$monitoring/rag.rules.yml]
scrape_configs:
  - job_name: rag
    authorization: {credentials: $key}
    static_configs: [{targets: ['$gateway->{address}']}]
YAML
my $pid = fork // die $!;
if ($pid == 0)
{
	open STDOUT, '>', "$work/log" or die $!;
	open STDERR, '>&', \*STDOUT or die $!;
	exec $prometheus, "--config.file=$work/prometheus.yml", "--storage.tsdb.path=$work/data",
	  "--web.listen-address=127.0.0.1:$port";
	die $!;
}
END { kill 'TERM', $pid and waitpid $pid, 0 if $pid }

my $http = HTTP::Tiny->new;

sub api
{
	my ($path, %arguments) = @_;
	my $query = $http->www_form_urlencode(\%arguments);
	my $response = $http->get("http://127.0.0.1:$port/api/v1/$path?$query");
	return $response->{success} ? decode_json($response->{content})->{data} : undef;
}
await('Prometheus has scraped', sub {
	my $target = (api('targets') // {})->{activeTargets}[0] // return 0;
	diag($target->{lastError}) if $target->{lastError};
	return $target->{health} eq 'up' });
await('the alerts are evaluated', sub {
	my $rules = (api('rules') // {})->{groups}[0]{rules} // return 0;
	return !grep { $_->{health} ne 'ok' } @$rules });
await(
	'a failed source is about to raise an alert',
	sub {
		my ($rule) = grep { $_->{name} eq 'RagSourceFailed' } @{ api('rules')->{groups}[0]{rules} };
		return ($rule->{alerts}[0]{labels}{source} // '') eq 'texts';
	});

my $board = decode_json(slurp_file("$monitoring/rag.dashboard.json"));
my @targets = map { @{ $_->{targets} } } @{ $board->{panels} };
cmp_ok(scalar @targets, '>', 20, 'the board has queries');
for my $target (@targets)
{
	my $query = $target->{expr} =~ s/\$database/.*/r =~ s/\$__rate_interval/1m/gr;
	my $answer = api('query', query => $query);
	ok($answer, "Prometheus understands $query");
	my ($metric) = $query =~ /(rag_\w+)/;
	next if $metric =~ /^rag_run_(age|idle)_seconds$|^rag_source_replication/;
	# a rate needs two scrapes
	await("$metric has values", sub { @{ api('query', query => $query)->{result} } > 0 })
	  if $metric ne 'rag_runs_total';
}
done_testing();
