# Texts that a model's server refuses while it accepts others: each is a failed document, and stops
# nothing else. A server that refuses everything fails the run, after two requests.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use RagCluster;
use RagLlm;

my $node = rag_node('refused_texts',
	conf => "rag.allowed_private_hosts = '127.0.0.1'\nrag.scheduler = off");
# before the first session, which would never end otherwise: the server would have its pipes
RagLlm::origin('short');
my $long = join ' ', map { "w$_" } 1 .. 60;

sub create_model
{
	my ($name, $provider, $fields) = @_;
	my $origin = RagLlm::origin($name);
	$fields .= ', "model": "tiny"' if $provider ne 'tei';
	$node->safe_psql('postgres',
		qq{SELECT rag_create_model('$name', 'embedding', '$provider',
			'{"base_url": "$origin", "batch": 8$fields}')});
	return;
}

# A collection with a source of the same name.
sub create_collection
{
	my ($name, @texts) = @_;
	my $folder = temp_folder();
	write_file(sprintf('%s/%02d.txt', $folder, $_), $texts[$_]) for 0 .. $#texts;
	$node->safe_psql('postgres', "SELECT rag_create_collection('$name', model => '$name');
		SELECT rag_create_source('$name', 'folder', '{\"path\": \"$folder\"}',
			collection => '$name')");
	return $folder;
}

# Syncs a source. Returns what the run has counted.
sub sync
{
	my ($name) = @_;
	my $result = run_sql($node, "SELECT rag_sync('$name')");
	diag $result->{err} if $result->{rc};
	return run_row($node, $name, 'phase, documents_added, documents_updated, documents_failed,
		chunks_embedded');
}

sub contents
{
	my ($name, $like) = @_;
	return ask($node, "SELECT count(*) FROM rag.chunks WHERE collection = '$name'
		AND content LIKE '$like'");
}

my @short = map { "The text number $_ is short." } 1 .. 20;
create_model('short', 'openai', '');
my $folder = create_collection('short', @short[ 0 .. 11 ], $long, @short[ 12 .. 19 ]);
is(sync('short'), 'Completed|20|0|1|20', 'one of 21 documents fails');
is( ask($node, "SELECT right(uri, 6), stage, message
		FROM rag.run_errors WHERE source = 'short'"),
	'12.txt|embed|the server of model "short" refuses a text: '
	  . '400 Bad Request: maximum context length is 40 tokens',
	'and the error has the words of the server');
like(ask($node, "SELECT hint FROM rag.run_errors WHERE source = 'short'"),
	qr/smaller chunks/, 'the error has a hint');
is(contents('short', 'The text%'), '20', 'all others are stored');
is(contents('short', 'w1%'), '0', 'and nothing of the one that is refused');
# two requests tell the dimensions, three have all texts; one of these is halved three times, and a
# short text may come before
cmp_ok(RagLlm::count('short'), '<=', 2 + 3 + 6 + 1, 'only its batch is halved');

is(sync('short'), 'Completed|0|0|1|0', 'the next run tries it again');
is_deeply(
	[ map { scalar @{ $_->{body}{input} } } RagLlm::requests('short') ],
	[ 1, 1 ],
	'with one request, and one that shows that the server accepts others');

write_file("$folder/12.txt", 'Now it is short.');
write_file("$folder/00.txt", $long);
is(sync('short'), 'Completed|0|1|1|1', 'one document is mended, and one breaks');
is(contents('short', 'The text number 1 is%'), '1', 'which keeps its former version');
is(contents('short', 'Now it is short.'), '1', 'the other one is stored');
write_file("$folder/00.txt", "Short again.\n");
is(sync('short'), 'Completed|0|1|0|1', 'then no document fails');

# -- the same text in several documents, and documents of many chunks
create_model('short-many', 'openai', ', "concurrency": 2');
$folder = create_collection('short-many', $long, $long);
$node->safe_psql('postgres',
	q{SELECT rag_alter_collection('short-many', chunk_size => 250, chunk_overlap => 0)});
write_file("$folder/02.txt", join "\n\n", (map { 'x' x 200 . " $_" } 1 .. 400), $long);
is(sync('short-many'), 'Completed|0|0|3|0', 'all documents with the text fail');
my @requests = map { $_->{body}{input} } RagLlm::requests('short-many');
is(scalar(grep { @$_ == 1 && $_->[0] eq $long } @requests), 1, 'and it is asked for once');

# -- what a session asks for
for my $statement (
	"SELECT rag_add_document('$long', 'x.txt', collection => 'short')",
	"SELECT rag_embed('$long', 'short')",
	"SELECT rag_upsert_chunks(jsonb_build_array(
		jsonb_build_object('chunk_id', gen_random_uuid(), 'uri', 'x', 'text', 'A short text.'),
		jsonb_build_object('chunk_id', gen_random_uuid(), 'uri', 'x', 'text', '$long')), 'short')")
{
	my $result = run_sql($node, $statement);
	my ($what) = $statement =~ /(rag_\w+)/;
	error_like($result, '22023',
		'the server of model "short" refuses a text: 400 Bad Request: maximum context',
		'smaller chunks', "$what: the error tells what to do");
	like($result->{err}, qr/DETAIL:  The text begins with "w1 w2 /,
		"$what: the error tells which text it is");
}
is(contents('short', 'A short text.'), '0', 'nothing is stored');

# -- a collection that changes to the model
$node->safe_psql('postgres', "SELECT rag_create_collection('other');
	SELECT rag_add_document('$long', 'long.txt', collection => 'other');
	SELECT rag_alter_collection('other', model => 'short')");
error_like(
	run_sql($node, "CALL rag_rebuild_collection('other')"),
	'22023', 'refuses a text', 'smaller chunks', 'a rebuild with the model');
is( ask($node, "SELECT content = '$long' FROM rag_search('w1', 'other', mode => 'keyword')"),
	't', 'keeps what there is');

# -- other interfaces
for my $provider (qw(ollama cohere tei))
{
	create_model("short-$provider", $provider, '');
	create_collection("short-$provider", @short[ 0 .. 8 ], $long);
	is(sync("short-$provider"), 'Completed|9|0|1|9', "$provider: one of ten documents fails");
}

# -- batches that are too large, and servers that refuse everything
create_model('small', 'openai', ', "concurrency": 1');
create_collection('small', @short);
is(sync('small'), 'Completed|20|0|0|20', 'batches that are too large are halved');
create_model('turning', 'openai', '');
$folder = create_collection('turning', @short);
is(sync('turning'), 'Completed|20|0|0|20', 'a server accepts texts');
RagLlm::requests('turning');
RagLlm::heal('turning');
write_file("$folder/00.txt", 'Another text.');
error_like(run_sql($node, "SELECT rag_sync('turning')"),
	'22023', 'refuses the request', 'settings of the model', 'a server that refuses everything');
like(run_row($node, 'turning', 'phase, documents_failed'), qr/^Failed\|0$/,
	'a server that refuses everything fails the run');
is(RagLlm::count('turning'), 2, 'the run ends after two requests');

$node->stop;
done_testing;
