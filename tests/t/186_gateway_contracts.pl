# rag-gateway speaks the contracts of other systems: OpenAI, Dify, KAITO, Wegent, agent_core and
# RAG-benchmark, with the requests of their documents and clients.
use strict;
use warnings;
use IO::Socket::INET;
use JSON::PP ();
use MIME::Base64 qw(decode_base64);
use Test::More;
use RagCluster;
use RagGateway;
use RagLlm;

my $node = rag_node('gateway_contracts', conf => "rag.allowed_private_hosts = '127.0.0.1'");
my $folder = temp_folder();
write_file("$folder/python.md", "# Python\n\nPython programming is done with indentation.\n");
my $origin = RagLlm::origin('good');
$node->safe_psql(
	'postgres', qq{
	CREATE ROLE web IN ROLE rag_reader;
	CREATE ROLE adm IN ROLE rag_admin, pg_read_server_files;
	SELECT rag_create_model('good', 'chat', 'openai',
		'{"base_url": "$origin/v1", "model": "tiny"}');
	SELECT rag_grant_model('good', 'public');
	ALTER DATABASE postgres SET rag.chat_model = 'good';
});
my $gateway = RagGateway->start($node);
my %key = map { $_ => $gateway->key($_) } qw(web adm);
my $key = $key{adm};
my ($true, $false) = (JSON::PP::true, JSON::PP::false);

# -- OpenAI: models and embeddings
# ----------------------------------------

my $models = $gateway->ok($key, GET => '/v1/models');
is_deeply([ map { $_->{id} } @{ $models->{data} } ], [ 'all-MiniLM-L6-v2', 'rag', 'rag/default' ],
	'models are rag, its collections, and embedding models');
is($gateway->ok($key, GET => '/v1/models/rag%2Fdefault')->{object}, 'model', 'a model is returned');
is($gateway->status($key, GET => '/v1/models/gpt-4'), 404, 'an unknown model is not');

my $request = { model => 'all-MiniLM-L6-v2', input => [ 'one', 'two' ] };
my $embeddings = $gateway->ok($key, POST => '/v1/embeddings', $request);
my @floats = @{ $embeddings->{data}[1]{embedding} };
is_deeply([ $embeddings->{data}[1]{index}, scalar @floats ], [ 1, 384 ],
	'each text has an embedding');
is_deeply($embeddings->{usage}, { prompt_tokens => 2, total_tokens => 2 },
	'tokens are a quarter of the bytes');
my $encoded =
  $gateway->ok($key, POST => '/v1/embeddings', { %$request, encoding_format => 'base64' });
my @decoded = unpack 'f<*', decode_base64($encoded->{data}[1]{embedding});
is(scalar @decoded, 384, 'an embedding may be wanted as base64');
cmp_ok(abs($decoded[$_] - $floats[$_]), '<', 1e-6, "... with the same number $_") for 0, 383;
for (
	[ 400, { %$request, dimensions => 5 } ],
	[ 400, { %$request, input => [] } ],
	[ 400, { %$request, input => '' } ],
	[ 400, { %$request, input => [ 1, 2 ] } ],
	[ 404, { %$request, model => 'text-embedding-3-small' } ])
{
	my ($status, $body) = $gateway->request($key, POST => '/v1/embeddings', $_->[1]);
	is($status, $_->[0], "a wrong request for embeddings gets $_->[0]");
	ok($body->{error}{message} && $body->{error}{type}, '... in the shape of OpenAI');
}

# -- OpenAI: vector stores
# ----------------------------------------

my $store = $gateway->ok($key, POST => '/v1/vector_stores',
	{ name => 'Support FAQ', metadata => { team => 'help' } });
like($store->{id}, qr/^vs_[0-9a-f]{32}$/, 'a name that no collection can have gets an id');
is_deeply([ @$store{qw(object name)}, $store->{metadata}{team} ],
	[ 'vector_store', 'Support FAQ', 'help' ], 'name and metadata are kept');
is($gateway->ok($key, POST => '/v1/vector_stores', { name => 'docs' })->{id},
	'docs', 'another name is the id');
is($gateway->status($key{web}, POST => '/v1/vector_stores', { name => 'x' }), 403,
	'a reader creates no store');
is($gateway->status($key, POST => '/v1/vector_stores', { expires_after => { days => 1 } }), 400,
	'what is not supported is refused');

my ($form, %type) = RagGateway::form(
	'keys.md', "# Keys\n\nSigning keys are rotated every 90 days.\n",
	purpose => 'assistants');
my $file = $gateway->ok($key, POST => '/v1/files', $form, %type);
like($file->{id}, qr/^file-[0-9a-f]{32}$/, 'a file is uploaded');
is($file->{bytes}, 48, '... with its size');
is($gateway->status($key{web}, GET => "/v1/files/$file->{id}"), 404,
	'another role does not see it');
is($gateway->status($key{web}, POST => '/v1/files', $form, %type), 403,
	'a role that may write nothing uploads nothing');
my $attached = $gateway->ok($key, POST => "/v1/vector_stores/$store->{id}/files",
	{ file_id => $file->{id}, attributes => { owner => 'security', year => 2024, open => $true } });
is_deeply([ @$attached{qw(id status vector_store_id)} ], [ $file->{id}, 'completed', $store->{id} ],
	'it is indexed');
for (
	[ eq => owner => 'security', 1 ], [ ne => owner => 'security', 0 ],
	[ gt => year => 2023, 1 ], [ gte => year => 2024, 1 ], [ lt => year => 2024, 0 ],
	[ lte => year => 2024, 1 ], [ in => owner => [qw(a security)], 1 ],
	[ nin => owner => [qw(a security)], 0 ], [ eq => open => $true, 1 ])
{
	my ($type, $name, $value, $count) = @$_;
	my $page = $gateway->ok($key, POST => "/v1/vector_stores/$store->{id}/search", {
		query => 'how often are keys rotated?',
		filters =>
		  { type => 'and', filters => [ { type => $type, key => $name, value => $value } ] }
	});
	is(scalar @{ $page->{data} }, $count, "filter $name $type");
}
my $page = $gateway->ok($key, POST => "/v1/vector_stores/$store->{id}/search",
	{ query => [ 'keys', 'rotation' ], max_num_results => 3 });
is_deeply([ sort keys %$page ], [qw(data has_more next_page object search_query)],
	'a page of results has the members of the contract');
is_deeply([ sort keys %{ $page->{data}[0] } ], [qw(attributes content file_id filename score)],
	'... and so has a result');
is($page->{data}[0]{file_id}, $file->{id}, 'a result names the file');
is($gateway->status($key, POST => "/v1/vector_stores/$store->{id}/search",
	{ query => 'a', filters => { type => 'like', key => 'a', value => 1 } }), 400,
	'an unknown filter is refused');
is($gateway->ok($key, GET => "/v1/vector_stores/$store->{id}")->{file_counts}{completed}, 1,
	'files are counted');
is($gateway->ok($key, GET => "/v1/vector_stores/$store->{id}/files")->{data}[0]{id}, $file->{id},
	'files are listed');
my $path = "/v1/vector_stores/$store->{id}/files/$file->{id}";
is($gateway->ok($key, GET => $path)->{attributes}{year}, 2024, 'a file is returned');
like($gateway->ok($key, GET => "/v1/vector_stores/$store->{id}/files/$file->{id}/content")
	  ->{data}[0]{text}, qr/90 days/, '... and its text');
is($gateway->ok($key, POST => "/v1/vector_stores/$store->{id}", { name => 'FAQ' })->{name}, 'FAQ',
	'a store is renamed');
my $batch = $gateway->ok($key, POST => '/v1/vector_stores/docs/file_batches',
	{ file_ids => [ $file->{id} ] });
is($batch->{file_counts}{completed}, 1, 'a batch is indexed');
is($gateway->ok($key, DELETE => "/v1/vector_stores/$store->{id}/files/$file->{id}")->{deleted},
	$true, 'a file is removed');
is($gateway->status($key, GET => "/v1/vector_stores/$store->{id}/files/$file->{id}"), 404,
	'... and gone');
is($gateway->ok($key, DELETE => "/v1/vector_stores/$store->{id}")->{deleted}, $true,
	'a store is dropped');

# -- OpenAI: answers
# ----------------------------------------

my $chat = { model => 'rag/docs', messages => [
		{ role => 'system', content => 'Be short.' },
		{ role => 'user', content => [ { type => 'text', text => 'when are keys rotated?' } ] } ] };
my $completion = $gateway->ok($key, POST => '/v1/chat/completions', $chat);
is($completion->{choices}[0]{message}{content}, 'Keys are rotated monthly [1].',
	'a chat completion has the answer');
is_deeply([ $completion->{object}, $completion->{choices}[0]{finish_reason} ],
	[ 'chat.completion', 'stop' ], '... in the shape of OpenAI');
cmp_ok($completion->{usage}{total_tokens}, '>', 0, '... with tokens');
is($completion->{source_nodes}[0]{metadata}{title}, 'keys.md', '... and with its sources');
$gateway->ok($key, POST => '/v1/chat/completions', { %$chat, model => 'x', index_name => 'docs' });
is($gateway->status($key, POST => '/v1/chat/completions', { %$chat, model => 'gpt-4' }), 404,
	'an unknown model is refused');
is($gateway->status($key{web}, POST => '/v1/chat/completions', $chat), 404,
	'a role that may not read the collection gets no answer from it');

sub events
{
	my ($path, $body) = @_;
	my $text = $gateway->ok($key, POST => $path, { %$body, stream => $true });
	like($gateway->{response}{headers}{'content-type'}, qr/event-stream/, "$path streams");
	return map { /^data: (.*)$/m ? ($1 eq '[DONE]' ? $1 : JSON::PP::decode_json($1)) : () }
	  split /\n\n/, $text;
}
my @chunks =
  events('/v1/chat/completions', { %$chat, stream_options => { include_usage => $true } });
is(pop @chunks, '[DONE]', 'a stream of chunks ends with [DONE]');
my $usage = pop @chunks;
cmp_ok($usage->{usage}{total_tokens}, '>', 0, '... after the tokens');
is(join('', map { $_->{choices}[0]{delta}{content} // '' } @chunks),
	'Keys are rotated monthly [1].', 'the chunks together are the answer');
cmp_ok(scalar @chunks, '>', 3, 'they are several');

my $response = $gateway->ok($key, POST => '/v1/responses',
	{ model => 'rag/docs', input => 'when are keys rotated?', instructions => 'Be short.' });
is($response->{output}[0]{content}[0]{text}, 'Keys are rotated monthly [1].',
	'a response has the answer');
my @events = events('/v1/responses', { model => 'rag/docs', input => $chat->{messages} });
is_deeply([ map { $_->{sequence_number} } @events ], [ 0 .. $#events ], 'events are numbered');
is(join('', map { $_->{delta} // '' } @events), 'Keys are rotated monthly [1].',
	'the deltas together are the answer');
is($events[-1]{type}, 'response.completed', 'the last event says that the response is complete');
is($events[-1]{response}{output}[0]{content}[0]{text}, 'Keys are rotated monthly [1].',
	'... and has all of it');
my $own = $gateway->ok($key, POST => '/v1/answer',
	{ query => 'when are keys rotated?', collection => 'docs' });
is($own->{message}, 'Keys are rotated monthly [1].', 'the own route answers, too');

# the first piece arrives before the model has ended
my $slow = RagLlm::origin('slow');
$node->safe_psql('postgres', qq{SELECT rag_create_model('slow', 'chat', 'openai',
	'{"base_url": "$slow/v1", "model": "tiny"}'), rag_grant_model('slow', 'public')});
my $socket = IO::Socket::INET->new(PeerAddr => $gateway->{address}) or die $!;
my $body = '{"query": "keys?", "collection": "docs", "model": "slow", "stream": true}';
print $socket "POST /v1/answer HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
  . "Authorization: Bearer $key\r\nContent-Length: " . length($body) . "\r\n\r\n$body";
my $read = '';
$read .= <$socket> // die 'the stream has ended' until $read =~ /event: text/;
unlike($read, qr/event: end/, 'the first piece of an answer does not wait for the last');
close $socket;
await('an answer that nobody reads is cancelled', sub {
	ask($node, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'rag-gateway'
		AND state = 'active'") == 0 });
my ($failed, $problem) = $gateway->request($key, POST => '/v1/answer',
	{ query => 'keys?', collection => 'docs', model => 'none', stream => $true });
is($failed, 404, 'a stream that cannot begin has a status');

# -- Dify, as its public client sends it
# ----------------------------------------

my $dify = {
	retrieval_setting => { top_k => 2, score_threshold => 0 },
	query => 'when are keys rotated?',
	knowledge_id => 'docs',
	metadata_condition => undef };
my $records = $gateway->ok($key, POST => '/retrieval', $dify)->{records};
is_deeply([ sort keys %{ $records->[0] } ], [qw(content metadata score title)],
	'a record of Dify has the members of the contract');
for (
	[ 403, 1001, undef, $dify ], [ 403, 1002, 'rag_x', $dify ],
	[ 404, 2001, $key, { %$dify, knowledge_id => 'nowhere' } ],
	[ 400, 400, $key, { %$dify, query => '' } ], [ 400, 400, $key, '' ])
{
	my ($status, $code, $with, $asked) = @$_;
	my ($got, $answer) = $gateway->request($with, POST => '/retrieval', $asked);
	is($answer->{error_code}, $code, "Dify's client gets $code");
	ok(length $answer->{error_msg}, '... with a message');
	is($got, $status == 403 ? 401 : $status, '... and a status');
}

# -- KAITO's RAG engine, as its client and AutoIndexer call it
# ----------------------------------------

my $indexed = $gateway->ok($key, POST => '/index', {
	index_name => 'kaito',
	documents => [
		{   doc_id => 'doc-1',
			text => 'Clusters are upgraded on Mondays.',
			metadata => { area => 'ops' } },
		{ text => 'Nodes have labels.' } ] });
is($indexed->[0]{doc_id}, 'doc-1', 'an id that is given is kept');
like($indexed->[1]{doc_id}, qr/^[0-9a-f]{64}$/, 'another one is drawn from the text');
is_deeply($gateway->ok($key, GET => '/indexes'), [qw(default docs kaito)], 'indexes are listed');
my $listed = $gateway->ok($key, GET => '/indexes/kaito/documents?limit=1&max_text_length=8');
is_deeply([ $listed->{count}, $listed->{total_items}, $listed->{documents}[0]{is_truncated} ],
	[ 1, 2, $true ], 'documents are listed in pages, with texts of a length');
my $retrieved = $gateway->ok($key, POST => '/retrieve',
	{ index_name => 'kaito', query => 'when are clusters upgraded?', max_node_count => 1,
		metadata_filter => { area => 'ops' } });
is($retrieved->{count}, 1, 'an index is searched');
is_deeply([ sort keys %{ $retrieved->{results}[0] } ],
	[qw(dense_score doc_id metadata node_id score source sparse_score text)],
	'a result has the members of the contract');
like($retrieved->{results}[0]{source}, qr/^(both|dense_only|sparse_only)$/, '... with its source');
my $updated = $gateway->ok($key, POST => '/indexes/kaito/documents', { documents => [
		{ doc_id => 'doc-1', text => 'Clusters are upgraded on Fridays.' },
		{ doc_id => 'doc-9', text => 'x' } ] });
is_deeply([ map { scalar @{ $updated->{$_} } }
		qw(updated_documents unchanged_documents not_found_documents) ], [ 1, 0, 1 ],
	'documents are updated');
is_deeply($gateway->ok($key, POST => '/indexes/kaito/documents/delete',
	{ doc_ids => [qw(doc-1 doc-9)] }),
	{ deleted_doc_ids => ['doc-1'], not_found_doc_ids => ['doc-9'] }, 'documents are deleted');
ok($gateway->ok($key, POST => "/$_/kaito")->{message}, "$_ says that the index is there")
  for qw(persist load);
is($gateway->ok(undef, GET => '/health')->{status}, 'Healthy', 'the program is healthy');
ok($gateway->ok($key, DELETE => '/indexes/kaito')->{message}, 'an index is dropped');
(undef, $problem) = $gateway->request($key, GET => '/indexes/kaito/documents');
like($problem->{detail}, qr/does not exist/, 'errors have the shape of the contract');

# -- Wegent
# ----------------------------------------

my $retriever = {
	apiVersion => 'agent.wecode.io/v1', kind => 'Retriever',
	metadata => { name => 'my-retriever', namespace => 'team', displayName => 'Mine' },
	spec => { storageConfig => { type => 'hnsw' }, description => 'for tests' } };
my $base = '/api/v1/namespaces/team/retrievers';
is($gateway->ok($key, POST => $base, $retriever)->{metadata}{name}, 'my-retriever',
	'a Retriever is created');
is($gateway->status($key, POST => $base, $retriever), 409, '... once');
is(scalar @{ $gateway->ok($key, GET => $base) }, 1, 'Retrievers are listed');
is($gateway->ok($key, GET => "$base/my-retriever")->{spec}{description}, 'for tests',
	'a Retriever is returned');
$retriever->{spec}{description} = 'changed';
is($gateway->ok($key, PUT => "$base/my-retriever", $retriever)->{spec}{description}, 'changed',
	'a Retriever is replaced');
is($gateway->status($key, PUT => "$base/other", $retriever), 404,
	'one that does not exist is not created');
is($gateway->status($key, POST => '/api/v1/namespaces/x/retrievers', $retriever), 400,
	'the namespace of the path counts');
is($gateway->ok($key, POST => "$base/my-retriever/test")->{success}, $true,
	'a Retriever is tested');
is($gateway->status($key, DELETE => "$base/my-retriever"), 200, 'a Retriever is dropped');
is($gateway->status($key, GET => "$base/my-retriever"), 404, '... and gone');
$node->safe_psql('postgres',
	"SET ROLE adm; SELECT rag_create_collection('base', external_id => 'KB/1')");
($form, %type) = RagGateway::form(
	'dify.md', "# Dify\n\nDify is a platform.",
	knowledge_id => 'KB/1',
	retriever_ref => '{"name": "default", "namespace": "default"}');
my $uploaded = $gateway->ok($key, POST => '/api/rag/documents/upload', $form, %type);
is_deeply([ @$uploaded{qw(success knowledge_id source_file)} ], [ $true, 'KB/1', 'dify.md' ],
	'a document is uploaded into a knowledge base');
my $found = $gateway->ok($key, POST => '/api/rag/retrieve', {
	knowledge_id => 'KB/1', query => 'What is Dify?',
	retriever_ref => { name => 'default', namespace => 'default' },
	retrieval_setting => { top_k => 5, retrieval_mode => 'hybrid' } });
is_deeply([ $found->{total}, $found->{records}[0]{source_file} ], [ 1, 'dify.md' ],
	'a knowledge base is searched');

# -- agent_core: the cases of its tests, over HTTP
# ----------------------------------------

is($gateway->ok($key, GET => '/api/v1/rag/search?q=anything&n=3')->{total_results}, 0,
	'an empty collection has no results');
my $item = $gateway->ok($key, POST => '/api/knowledge/', {
	title => 'Search Test Document', document_type => 'markdown',
	uri => "file://$folder/python.md", category => 'SearchTest' });
my $index = $gateway->ok($key, POST => "/api/rag/index/$item->{id}");
is_deeply([ @$index{qw(success knowledge_id chunks_indexed)} ], [ $true, $item->{id}, 1 ],
	'an item is indexed');
cmp_ok($gateway->ok($key, GET => '/api/rag/search?q=Python+programming&n=3')->{total_results}, '>',
	0, '... and found');
my $results = $gateway->ok($key, POST => '/api/v1/rag/search',
	{ query => 'Python', n_results => 5, category => 'SearchTest' })->{results};
is_deeply([ sort keys %{ $results->[0] } ],
	[qw(chunk_index content knowledge_id score title uri)],
	'a result has the members of the contract');
is($gateway->ok($key, POST => '/api/v1/rag/search', { query => 'Python', category => 'no' })
	  ->{total_results}, 0, 'a category restricts');
my $missing = $gateway->ok($key, POST => '/api/knowledge/',
	{ title => 'Missing', uri => "file://$folder/none.md" });
my $error = $gateway->ok($key, POST => "/api/rag/index/$missing->{id}");
is_deeply([ @$error{qw(success content_hash chunks_indexed)} ], [ $false, '', 0 ],
	'an item that cannot be fetched is told');
ok($error->{error}, '... with the reason');
my $all = $gateway->ok($key, POST => '/api/v1/rag/index-all?status=active');
ok(exists $all->{results}, 'all items are indexed') or diag(JSON::PP->new->encode($all));
is($gateway->ok($key, GET => '/api/rag/stats')->{unique_knowledge_items}, 1, 'counts are returned');
is($gateway->ok($key, DELETE => "/api/rag/index/$item->{id}")->{success}, $true,
	'documents of an item are removed');
is($gateway->status($key, POST => '/api/rag/index/999'), 404, 'an unknown item gets 404');
is($gateway->status($key, DELETE => '/api/rag/index/999'), 404, '... also when it is removed');

# -- RAG-benchmark
# ----------------------------------------

my $instance = $gateway->ok($key, POST => '/rag/index',
	{ rag_name => 'baseline', documents => [ 'first text', 'second text' ] });
is_deeply([ @$instance{qw(success document_count)} ], [ $true, 2 ], 'an instance is indexed');
is($gateway->ok($key, POST => '/rag/index', { rag_name => 'baseline', documents => ['new'] })
	  ->{index_status}{document_count}, 1, 'other documents replace the former ones');
my ($listed_instance) =
  grep { $_->{name} eq 'baseline' } @{ $gateway->ok($key, GET => '/rag/list')->{rags} };
is($listed_instance->{index_status}{embedding_dimension}, 384, 'instances are listed');
is_deeply([ sort keys %{ $gateway->ok($key, GET => '/rag/baseline/index/status') } ],
	[qw(created_at document_count embedding_dimension has_index total_size_bytes updated_at)],
	'the status has the members of the contract');
is($gateway->ok($key, POST => '/rag/baseline/index/reload')->{success}, $true,
	'an index need not be loaded');
is($gateway->status($key, DELETE => '/rag/baseline'), 200, 'an instance is dropped');
is($gateway->status($key, GET => '/rag/baseline/index/status'), 404, '... and gone');

is($gateway->stop, 0, 'the program ends with status 0');
done_testing();
