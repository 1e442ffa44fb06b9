# Storage on another server: what is written when, rights and filters, credentials, and servers that
# fail. The servers are contract servers: see tests/servers/vectors.py.
use strict;
use warnings;
use HTTP::Tiny;
use JSON::PP qw(decode_json);
use Test::More;
use RagStorage;
use RagCluster;
use RagVectors;
use PostgreSQL::Test::Utils;

my $node = rag_node('storage_servers',
	scheduler => 1,
	conf => "rag.allowed_private_hosts = '127.0.0.1'");
my $sql = sub { return $node->safe_psql('postgres', $_[0]) };
RagStorage::prepare($sql);

my $key = 'k-8f2e61c0d4a94b7f';
my $url = RagVectors::start('qdrant', $key);
my $retriever = sub {
	my ($name, $config) = @_;
	return $sql->(qq{SELECT rag_create_retriever('$name', '{"storageConfig": $config}');
		SELECT rag_create_collection('$name', retriever => '$name')});
};
my $state = sub { return $sql->(qq{SELECT state FROM rag_collection_status('$_[0]')}) };
my $written = sub {
	my ($name) = @_;
	return await("$name is written", sub { $state->($name) ne 'syncing' });
};

# -- definitions
my $wrong = run_sql($node,
	q{SELECT rag_create_retriever('wrong', '{"storageConfig": {"type": "elasticsearch",
		"password": "not to be repeated", "usernameRef": {"name": "es"}}}')});
error_like($wrong, '22023', qr/invalid definition/, undef, 'settings that are missing are refused');
for my $field ('url: is missing', 'password: is not stored', 'passwordRef: is missing beside')
{
	like($wrong->{err}, qr/spec\.storageConfig\.\Q$field\E/, "all are named: $field");
}
unlike($wrong->{err}, qr/DETAIL.*not to be repeated/, 'values are not repeated');

# -- credentials by reference
$sql->(qq{SELECT rag_create_secret('vectors', '$key')});
$retriever->('docs', qq({"type": "qdrant", "url": "$url", "apiKeyRef": {"name": "vectors"}}));
like($sql->(q{SELECT message FROM rag_test_retriever('docs')}),
	qr{storage "qdrant" is Qdrant 1\.14\.0 at http://127}, 'a test names the server');
$retriever->('keyless', qq({"type": "qdrant", "url": "$url"}));
like(
	$sql->(q{SELECT success, message FROM rag_test_retriever('keyless')}),
	qr{^f\|Qdrant at \Q$url\E refuses the credentials.*401.*Check the secrets},
	'a test without the key says what is wrong');
error_like(run_sql($node, q{SELECT rag_drop_secret('vectors')}),
	'2BP01', qr/retrievers? use/, undef, 'a secret that a retriever uses stays');

# -- written after the commit, by the scheduler
my $chunks = q{jsonb_build_array(chunk(1, 'a', axis(1), '{"metadata": {"team": "red"}}'),
	chunk(2, 'b', axis(2), '{"metadata": {"team": "blue"}}'),
	chunk(3, 'c', halfway(1, 2), '{"metadata": {"team": "red"}}'))};
my $count = sub {
	return $sql->(qq{SELECT server_chunks FROM rag_sync_storage('$_[0]')});
};
my $session = session($node);
$session->query("BEGIN; SELECT rag_upsert_chunks($chunks, 'docs')");
is($session->query(q{SELECT found('docs', axis(1), 2)}),
	'1 1.000, 3 0.707', 'a transaction finds what it has written');
is( $session->query(
		q{SELECT documents_written, documents_pending, server_chunks
			FROM rag_sync_storage('docs')}),
	'0|3|0',
	'before the commit nothing is written to the server');
$session->query('ROLLBACK');
is($count->('docs'), '0', 'nor after a rollback');
$session->query("BEGIN; SELECT rag_upsert_chunks($chunks, 'docs'); COMMIT");
$written->('docs');
is($count->('docs'), '3', 'the scheduler writes it after the commit');
is($sql->(q{SELECT found('docs', axis(1))}), '1 1.000, 3 0.707, 2 0.000', 'searches find it');
my $requests = RagVectors::requests($url);
ok($requests->{'POST collections/rag_kb_docs/points/query'}, 'and ask the server');

# -- a document of a source, changed and removed
my $folder = RagCluster::temp_folder();
RagCluster::write_file("$folder/one.txt", 'The first document is about pumps.');
RagCluster::write_file("$folder/two.txt", 'The second document is about valves.');
$sql->(
	qq{SELECT rag_create_source('files', 'folder', '{"path": "$folder"}', collection => 'docs',
		drift_policy => 'manual')}
);
$sql->(q{SELECT rag_sync('files')});
$written->('docs');
is($count->('docs'), '5', 'a run writes to the server');
unlink "$folder/two.txt";
RagCluster::write_file("$folder/one.txt", 'The first document is about taps.');
$sql->(q{SELECT rag_sync('files')});
$written->('docs');
is($count->('docs'), '4', 'what a run removes is removed there');
like($sql->(q{SELECT content FROM rag_search('taps', 'docs', 1, 'vector')}),
	qr/taps/, 'and what it changes is changed');

# -- a server that lacks something, and a drift check that counts both sides
my $drift = q{SELECT drifted, detail -> 'server' FROM rag_check_drift('files')};
is($sql->($drift), 'f|', 'both sides agree');
my $document = $sql->(q{SELECT document_id FROM rag.documents WHERE uri LIKE '%one.txt'});
my $gone = HTTP::Tiny->new->post(
	"$url/collections/rag_kb_docs/points/delete",
	{
		headers => { 'api-key' => $key, 'content-type' => 'application/json' },
		content => qq({"filter": {"must": [{"key": "document", "match": {"value": "$document"}}]}})
	});
ok($gone->{success}, 'somebody deletes a document at the server');
is($sql->($drift), 't|{"chunks": 4, "server_chunks": 3}', 'the numbers of chunks differ');
like(
	$sql->(
		q{SELECT c ->> 'message' FROM rag.sources, jsonb_array_elements(conditions) c
		WHERE name = 'files' AND c ->> 'type' = 'AutoIndexerDriftDetected'}),
	qr/^the server has 3 chunks instead of 4$/,
	'the condition says so');
$sql->(q{SELECT rag_sync('files')});
$written->('docs');
is($count->('docs'), '4', 'the next run has all written again');
is($sql->($drift), 'f|', 'both sides agree again');

# -- rights: the server knows nothing of them
$sql->(q{CREATE ROLE reader LOGIN; GRANT rag_reader TO reader;
	SELECT rag_grant_collection('docs', 'reader', 'read');
	ALTER TABLE rag.chunks ENABLE ROW LEVEL SECURITY;
	CREATE POLICY red ON rag.chunks AS RESTRICTIVE FOR SELECT TO reader
		USING (metadata @> '{"team": "red"}')});
is( $node->safe_psql(
		'postgres', q{SELECT found('docs', axis(2), 2)}, extra_params => [ '-U', 'reader' ]),
	'3 0.707, 1 0.000',
	'row-level security holds, and other rows take their places');

unlike(
	$node->safe_psql(
		'postgres', q{SELECT string_agg(detail, $$; $$)
			FROM rag_explain_search('', 'docs', mode => 'vector',
			query_embedding => (axis(2)::text)::rag_types.vector, filter => '{"team": "blue"}')},
		extra_params => [ '-U', 'reader' ]),
	qr/candidates of the server/,
	'no number tells of rows that policies hide');
error_like(
	run_sql($node, q{BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT rag_sync_storage('docs')}),
	'25001', qr/fixed snapshot/, qr/READ COMMITTED/,
	'a fixed snapshot would write documents as they were');

# -- a server that loses the index
my $forget = sub {
	HTTP::Tiny->new->delete("$url/collections/rag_kb_docs", { headers => { 'api-key' => $key } })
	  ->{success} || die 'the index cannot be deleted';
};
$forget->();
my $lost = run_sql($node, q{SELECT found('docs', axis(1), 1)});
like($lost->{out}, qr/^1 1\.000/m, 'a search without the index reads this database');
like($lost->{err},
	qr/NOTICE.*this database alone.*\n.*no index of collection "docs" any more\n.*complete => true/,
	'and says how to repair it');
$sql->(q{SELECT rag_sync_storage('docs', complete => true)});
$written->('docs');
is($count->('docs'), '4', 'rag_sync_storage writes all documents again');
$forget->();
$sql->(q{SELECT rag_upsert_chunks(jsonb_build_array(chunk(6, 'f', axis(6))), 'docs')});
$written->('docs');
is($count->('docs'), '5', 'so does the next change');
my $quiet = run_sql($node, q{SELECT found('docs', axis(1), 1)});
is($quiet->{err}, '', 'then the server is asked again');

# -- a secret that is missing
$sql->(qq{SELECT rag_create_secret('other', '$key')});
$retriever->('aside', qq({"type": "qdrant", "url": "$url", "apiKeyRef": {"name": "other"}}));
$sql->(q{SELECT rag_upsert_chunks(jsonb_build_array(chunk(1, 'a', axis(1))), 'aside')});
$written->('aside');
$sql->(q{DELETE FROM rag_internal.secret_value WHERE name = 'other'});
like(
	$sql->(q{SELECT string_agg(format('%s %s', collection, error), E'\n' ORDER BY collection)
		FROM rag_sync_storage()}),
	qr/^aside secret "other".*\ndocs $/m,
	'a secret that is missing keeps no other collection from being written');
$sql->(qq{SELECT rag_drop_collection('aside')});

# -- a server that fails
RagVectors::fail_next($url, status => 429, retry_after => 0, times => 2);
$sql->(q{SELECT rag_upsert_chunks(jsonb_build_array(chunk(4, 'd', axis(4))), 'docs')});
$written->('docs');
is($sql->(q{SELECT found('docs', axis(4), 1)}),
	'4 1.000', 'a server that limits requests is asked again');
RagVectors::fail_next($url, status => 503, times => 1000);
$sql->(q{SELECT rag_upsert_chunks(jsonb_build_array(chunk(5, 'e', axis(5))), 'docs')});
await('the failure is recorded',
	sub { $sql->(q{SELECT count(*) FROM rag_internal.storage_delay WHERE collection = 'docs'}) });
like(
	$sql->(q{SELECT state, detail FROM rag_collection_status('docs')}),
	qr{^syncing\|storage "qdrant" does not have .* 1 document; .* Qdrant at \Q$url\E has failed},
	'the status says what is not written, and why');
my $search = run_sql($node, q{SELECT found('docs', axis(5), 2)});
like($search->{out}, qr/^5 1\.000, 1 0\.000/m, 'searches read this database alone');
like($search->{err}, qr/NOTICE.*reads this database alone.*\n.*Qdrant at \Q$url\E/,
	'a NOTICE tells that this database alone is searched');
RagVectors::stop_all();
like(
	$sql->(q{SELECT success, message FROM rag_test_retriever('docs')}),
	qr{^f\|could not reach Qdrant at \Q$url\E: .*127\.0\.0\.1.*Check the host name},
	'a test of a server that is gone has the address and a hint');
like($sql->(q{SELECT error FROM rag_sync_storage('docs')}),
	qr/could not reach Qdrant/, 'rag_sync_storage reports it');

# -- it moves to another server
my $other = RagVectors::start('elasticsearch', 'ApiKey ' . $key);
$sql->(qq{SELECT rag_alter_retriever('docs', '{"storageConfig": {"type": "elasticsearch",
	"url": "$other", "apiKeyRef": {"name": "vectors"}}}')});
$written->('docs');
is($sql->(q{SELECT documents_pending, server_chunks = chunks FROM rag_sync_storage('docs')}),
	'0|t', 'all documents are written to another server');
await('the removal at the former one fails',
	sub { $sql->(q{SELECT error ~ 'could not reach Qdrant' FROM rag_internal.storage_removal
		WHERE collection = 'docs'}) eq 't' });
my $former = q{SELECT problem, remedy FROM rag_status() WHERE object = 'retriever docs'};
like(
	$sql->(q{SELECT error FROM rag_sync_storage('docs')}),
	qr{^former server: could not reach Qdrant at \Q$url\E},
	'rag_sync_storage says that this is the former server');
like(
	$sql->($former),
	qr{^a former server, \Q$url\E, could not delete .* of collection "docs": .*forget => true},
	'rag_status() names it, and how to give it up');
$node->restart;
is($sql->(q{SELECT found('docs', axis(5), 1)}), '5 1.000', 'searches find them there');
ok(RagVectors::requests($other)->{'POST rag_kb_docs/_search'}, 'searches ask the other server');

# -- the former server is given up
$sql->(q{CREATE ROLE stranger LOGIN; GRANT rag_admin TO stranger;
	SELECT rag_grant_collection('docs', 'stranger', 'write')});
$node->safe_psql(
	'postgres', q{SELECT * FROM rag_sync_storage('docs', forget => true)},
	extra_params => [ '-U', 'stranger' ]);
isnt($sql->($former), '', 'a role that does not own the retriever gives nothing up');
my $given_up =
  run_sql($node, q{SELECT documents_pending, error FROM rag_sync_storage('docs', forget => true)});
like(
	$given_up->{err},
	qr{NOTICE.*what \Q$url\E has of collection "docs" stays there},
	'a NOTICE names what is given up');
is($given_up->{out}, '0|', 'a collection whose former server is given up has no error');
is($sql->($former), '', 'rag_status() has no row of a server that was given up');
my $removals = q{FROM rag_internal.storage_removal WHERE collection IN ('docs', 'papers')};
is($sql->("SELECT count(*) $removals"),
	'0', 'a former server that was given up is not asked again');

# -- options of the index
my $asked = sub {
	my ($at, %headers) = @_;
	my $answer = HTTP::Tiny->new->get($at, { headers => \%headers });
	$answer->{success} or die "$at: $answer->{status}";
	return decode_json($answer->{content});
};
my $tuned = RagVectors::start('qdrant', $key);
$retriever->(
	'tuned', qq({"type": "qdrant", "url": "$tuned", "apiKeyRef": {"name": "vectors"},
		"ext": {"m": 24, "shards": 3, "replicas": 1, "on_disk": true, "quantization": "int8"}}));
$sql->(q{SELECT rag_upsert_chunks(jsonb_build_array(chunk(1, 'a', axis(1))), 'tuned')});
$written->('tuned');
my $config = $asked->("$tuned/collections/rag_kb_tuned", 'api-key' => $key)->{result}{config};
ok($config->{params}{vectors}{on_disk} && $config->{hnsw_config}{on_disk},
	'Qdrant has vectors and graph on disk');
is_deeply([ @$config{qw(shard_number replication_factor quantization_config)} ],
	[ 3, 2, { scalar => { type => 'int8' } } ], 'Qdrant gets shards, copies and quantization');
my $options = qq({"storageConfig": {"type": "qdrant", "url": "$tuned",
	"apiKeyRef": {"name": "vectors"}, "ext": {"m": 24, "shards": 4}}});
like(
	run_sql($node, qq{SELECT rag_alter_retriever('tuned', '$options')})->{err},
	qr/NOTICE.*stale until rag_rebuild_collection.*tuned/,
	'other options need a rebuild');
$sql->(q{CALL rag_rebuild_collection('tuned')});
$written->('tuned');
my $partition = $sql->(q{SELECT partition FROM rag.collections WHERE name = 'tuned'});
$config = $asked->("$tuned/collections/$partition", 'api-key' => $key)->{result}{config};
is_deeply([ @$config{qw(shard_number replication_factor)} ],
	[ 4, undef ], 'a rebuild creates the index with them');
$tuned = RagVectors::start('elasticsearch', 'ApiKey ' . $key);
$retriever->(
	'tuned-too', qq({"type": "elasticsearch", "url": "$tuned", "apiKeyRef": {"name": "vectors"},
		"ext": {"shards": 2, "replicas": 0, "quantization": "binary"}}));
$sql->(q{SELECT rag_upsert_chunks(jsonb_build_array(chunk(1, 'a', axis(1))), 'tuned-too')});
$written->('tuned-too');
my @index = ("$tuned/rag_kb_tuned-too", authorization => "ApiKey $key");
is_deeply($asked->("$index[0]/_settings", @index[ 1, 2 ])->{'rag_kb_tuned-too'}{settings}{index},
	{ number_of_shards => 2, number_of_replicas => 0 },
	'Elasticsearch gets shards and copies');
is($asked->("$index[0]/_mapping", @index[ 1, 2 ])
	  ->{'rag_kb_tuned-too'}{mappings}{properties}{vector}{index_options}{type},
	'bbq_hnsw', 'Elasticsearch gets the quantization');

# -- the former server of a collection that has been dropped
my $brief = RagVectors::start('qdrant', $key);
$retriever->('brief', qq({"type": "qdrant", "url": "$brief", "apiKeyRef": {"name": "vectors"}}));
$sql->(q{SELECT rag_upsert_chunks(jsonb_build_array(chunk(1, 'a', axis(1))), 'brief')});
$written->('brief');
RagVectors::fail_next($brief, status => 503, times => 1000);
$sql->(q{SELECT rag_drop_collection('brief')});
$sql->(q{SELECT rag_drop_retriever('brief')});
await('its server fails',
	sub { $sql->(q{SELECT count(*) FROM rag_status() WHERE object = 'retriever brief'}) });
$given_up = run_sql($node, q{SELECT count(*) FROM rag_sync_storage('brief', forget => true)});
like(
	$given_up->{err},
	qr{NOTICE.*what \Q$brief\E has of collection "brief" stays there},
	'a server of a dropped collection is given up, too');
is($given_up->{out}, '0', 'a dropped collection has no row in rag_sync_storage');
is($sql->(q{SELECT count(*) FROM rag_status() WHERE object = 'retriever brief'}),
	'0', 'rag_status() has no row of the server of a dropped collection');

# -- the collection gets another name: the index at the server keeps that of the partition
my $at_server = sub {
	my ($collection) = @_;
	my $answer = HTTP::Tiny->new->post(
		"$other/rag_kb_docs/_count",
		{
			headers =>
			  { authorization => "ApiKey $key", 'content-type' => 'application/json' },
			content => qq({"query": {"term": {"collection": "$collection"}}})
		});
	return JSON::PP::decode_json($answer->{content})->{count} // $answer->{content};
};
my $number = $sql->(q{SELECT count(*) FROM rag.chunks WHERE collection = 'docs'});
is($at_server->('docs'), $number, 'the server has the chunks under the name of the collection');
$sql->(q{SELECT rag_rename_collection('docs', 'papers')});
is($sql->(q{SELECT found('papers', axis(5), 1)}),
	'5 1.000', 'a renamed collection is searched at once');
$written->('papers');
is( $sql->(q{SELECT documents_pending, server_chunks, error FROM rag_sync_storage('papers')}),
	"0|$number|",
	'the server gets its chunks under the new name');
await('the old name is gone at the server', sub { $at_server->('docs') eq '0' });
is($at_server->('papers'),
	$number, 'chunks of a renamed collection stay when its old name is deleted');
my $renamed = run_sql($node, q{SELECT found('papers', axis(5), 1)});
is("$renamed->{out}$renamed->{err}", '5 1.000', 'searches of a renamed collection ask the server');
RagVectors::fail_next($other, status => 503, times => 1000);
$sql->(q{SELECT rag_rename_collection('papers', 'docs')});
like(run_sql($node, q{SELECT found('docs', axis(5), 1)})->{out},
	qr/^5 1\.000$/m, 'a collection is renamed and found while its server fails');
await('the failure is recorded',
	sub { $sql->("SELECT count(*) $removals AND error IS NOT NULL") });
RagVectors::fail_next($other, times => 0);
await(
	'the server works again',
	sub {
		$sql->(q{SELECT * FROM rag_sync_storage('docs')});
		$sql->("SELECT count(*) $removals") eq '0';
	});
$written->('docs');
is($at_server->('docs') . '|' . $at_server->('papers'),
	"$number|0", 'a server that has failed has a renamed collection under its name alone');
is($sql->($former), '', 'a renamed collection has no former server');

# -- a vector that the server does not accept: it has no direction
$sql->(q{BEGIN; SELECT rag_upsert_chunks(jsonb_build_array(
	chunk(7, 'g', axis(7)), chunk(8, 'h', axis(8))), 'docs');
	UPDATE rag.chunks SET embedding = array_fill(0, ARRAY[384])::real[]::rag_types.vector
		WHERE collection = 'docs' AND chunk_id = id(7); COMMIT});
await(
	'it is refused',
	sub {
		$sql->(q{SELECT count(*), count(error) FROM rag_internal.storage_change
			WHERE collection = 'docs'}) eq '1|1';
	});
like(
	$sql->(q{SELECT documents_pending, error FROM rag_sync_storage('docs')}),
	qr/^1\|Elasticsearch at .* refuses points: .*zero magnitude/,
	'one document that is refused does not keep others from being written');
like(
	$sql->(q{SELECT state, detail FROM rag_collection_status('docs')}),
	qr/^syncing\|.* 1 document; .*zero magnitude/,
	'the status says why');
$sql->(q{SELECT rag_delete_chunks(ARRAY[id(7)]::text[], 'docs')});
$written->('docs');
$sql->(q{SELECT rag_drop_source('files'); SELECT rag_drop_collection('docs')});
await(
	'the index is deleted',
	sub {
		$sql->(q{SELECT count(*) = 0 FROM rag_internal.storage_removal
			WHERE spec #>> '{storageConfig,type}' = 'elasticsearch'}) eq 't';
	});
ok(RagVectors::requests($other)->{'DELETE rag_kb_docs'},
	'a collection that is dropped is deleted at its server');
is($sql->('SELECT count(*) FROM rag_internal.storage_change'), '0', 'and nothing is left to write');
unlike($node->safe_psql('postgres', 'TABLE rag.retrievers') . slurp_file($node->logfile),
	qr/\Q$key\E/, 'the key is in no table of settings and not in the log');
done_testing();
