# Random statements over all functions, views and types, which sqlsmith makes up (Debian: sqlsmith),
# as a reader, as an administrator and as a superuser: the server does not crash, and none meets an
# internal error of the extension. RAG_TEST_SEED repeats a run, RAG_TEST_SECONDS says how long each
# role takes (default 60).
use strict;
use warnings;
use Test::More;
use RagCluster;
use RagTest;

plan skip_all => 'sqlsmith is not installed' if system('sqlsmith --version >/dev/null 2>&1') != 0;
my $seed = $ENV{RAG_TEST_SEED} // int(rand(2**31));
my $seconds = $ENV{RAG_TEST_SECONDS} // 60;
diag("RAG_TEST_SEED=$seed");

my $node = rag_node('random_sql',
	scheduler => 1,
	conf => "log_line_prefix = '[%p] %e '\nrestart_after_crash = off\n");
my $handbook = handbook();
$node->safe_psql(
	'postgres', qq{
	SELECT rag_create_source('handbook', 'folder', '{"path": "$handbook"}', schedule => '\@hourly');
	SELECT rag_sync('handbook');
	SELECT rag_create_collection('split', dimensions => 3);
	SELECT rag_upsert_chunks(jsonb_agg(jsonb_build_object('chunk_id', 'c' || i, 'document_id',
		'd' || i / 10, 'text', 'words of a text ' || i, 'chunk_index', i,
		'embedding', ARRAY[i, 1, 2], 'metadata', jsonb_build_object('k', i % 7))), 'split')
	FROM generate_series(1, 300) i;
	CREATE TABLE items (id int PRIMARY KEY, kind int, body text, v rag_types.vector, m jsonb);
	INSERT INTO items SELECT i, i % 10, 'body ' || md5(i::text),
		format('[%s,%s,1]', i, i % 7)::rag_types.vector, jsonb_build_object('a', i)
	FROM generate_series(1, 2000) i;
	CREATE INDEX ON items USING rag_hnsw (v vector_l2_ops);
	CREATE INDEX ON items USING rag_bm25 (body) WITH (text_config = 'simple');
	CREATE TABLE parts (id int, body text, v rag_types.vector) PARTITION BY RANGE (id);
	CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (500);
	CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (500) TO (2000);
	INSERT INTO parts SELECT i, 'part ' || i, format('[%s,1]', i)::rag_types.vector
	FROM generate_series(1, 999) i;
	CREATE INDEX ON parts USING rag_hnsw (v vector_cosine_ops);
	CREATE INDEX ON parts USING rag_bm25 (body) WITH (text_config = 'english');
	ANALYZE;
	CREATE ROLE reader LOGIN IN ROLE rag_reader;
	CREATE ROLE adm LOGIN IN ROLE rag_admin, pg_monitor;
	CREATE ROLE super LOGIN SUPERUSER;
	GRANT ALL ON items, parts TO reader, adm;
	SELECT rag_grant_collection(c, r, 'write') FROM unnest(ARRAY['default', 'split']) c,
		unnest(ARRAY['reader', 'adm']) r;
	ALTER SYSTEM SET statement_timeout = '5s';
	SELECT pg_reload_conf()});
my $witness = witness($node);

# faults of the server that sqlsmith finds in any database
my $of_server = qr/ERROR:  (?:invalid INTERVAL typmod|failed to find conversion function)/;
my $read = -s $node->logfile;
for my $role (qw(reader adm super))
{
	my $target = 'host=' . $node->host . ' port=' . $node->port . " user=$role dbname=postgres";
	# a superuser's statements may end the session, so it begins again
	my ($rounds, $end) = (0, time + $seconds);
	while ((my $left = $end - time) > 0)
	{
		my $number = $seed + $rounds++;
		system "timeout $left sqlsmith --target='$target' --exclude-catalog --seed=$number "
		  . '>/dev/null 2>&1';
		last if $rounds > 100;
		select undef, undef, undef, 0.5;
	}
	same_cluster($witness, "random statements of $role");
	open my $log, '<:raw', $node->logfile or die $!;
	seek $log, $read, 0;
	my ($statements, @internal) = (0);
	while (my $line = <$log>)
	{
		$statements++ if $line =~ /^\[\d+\] \w+ ERROR: /;
		push @internal, $line
		  if $line =~ /^\[\d+\] (?:XX\w+ (?:ERROR|FATAL)|\w+ PANIC): / && $line !~ $of_server;
	}
	$read = tell $log;
	cmp_ok($statements, '>', 10, "$role: $statements statements were refused");
	# a superuser's statements may break the server's own catalogs
	is(join('', @internal), '', "$role: no internal error") if $role ne 'super';
}
is($node->safe_psql('postgres', 'SELECT count(*) FROM rag_check_index(\'items_v_idx\')'),
	'0', 'the index is correct');
$node->stop;
done_testing();
