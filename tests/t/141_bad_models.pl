# Models that cannot be used, one by one: folders with wrong files, servers that answer wrongly, and
# models that are dropped while they are in use. Each is an error with SQLSTATE and HINT, nothing
# wrong is stored, and no message has the key.
use strict;
use warnings;
use File::Copy qw(copy);
use PostgreSQL::Test::Utils;
use Test::More;
use RagCluster;
use RagLlm;

my $node = rag_node('bad_models',
	conf => "rag.allowed_private_hosts = '127.0.0.1'\nrag.scheduler = off");
my $key = 'sk-a-key-that-nobody-sees-4711';
# before the first session, which would never end otherwise: the server would have its pipes
RagLlm::origin('good');
$node->safe_psql('postgres', "SELECT rag_create_secret('llm', '$key')");

# -- folders
my $files = "$ENV{RAG_TEST_FILES}/models";

# A copy of a model with some files replaced (undef: without the file). Returns the folder.
sub model_folder
{
	my ($model, %replaced) = @_;
	my $folder = temp_folder();
	for my $file (glob "$files/$model/*.onnx $files/$model/*.json")
	{
		my ($name) = $file =~ m{([^/]+)$};
		copy($file, "$folder/$name") or die "$file: $!";
	}
	for my $name (keys %replaced)
	{
		unlink "$folder/$name";
		write_file("$folder/$name", $replaced{$name}) if defined $replaced{$name};
	}
	return $folder;
}

my $config = slurp_file("$files/modernbert/config.json");
my @folders = (
	[ 'missing folder', temp_folder() . '/nowhere', '58P01', 'nowhere', '.' ],
	[
		'missing graph',
		model_folder('modernbert', map { ("model$_.onnx" => undef) } '', '_int8'),
		'58P01', 'onnx', 'rag-model convert'
	],
	[ 'missing tokenizer', model_folder('modernbert', 'tokenizer.json' => undef), '58P01',
		'tokenizer\.json', '.' ],
	[ 'missing config', model_folder('modernbert', 'config.json' => undef), '58P01',
		'config\.json', '.' ],
	[ 'wrong architecture', "$files/bert-score", 'F0000', 'bert-score', '.' ],
	[
		'tokenizer of another model',
		model_folder('modernbert',
			'tokenizer.json' => slurp_file("$files/bert-score/tokenizer.json"),
			'config.json' => $config =~ s/("vocab_size":\s*)\d+/${1}20/r),
		'F0000', 'tokenizer\.json', '.'
	],
	[
		'dimension mismatch',
		model_folder('modernbert', 'config.json' => $config =~ s/("hidden_size":\s*)24/${1}32/r),
		'F0000', 'onnx', '.'
	]);
for my $case (@folders)
{
	my ($what, $folder, @expected) = @$case;
	error_like(
		run_sql($node, "SELECT rag_create_model('local', 'embedding', 'local',
			'{\"path\": \"$folder\"}'); SELECT rag_embed('a text', 'local')"),
		@expected, "$what: the error tells what is wrong");
	$node->safe_psql('postgres', "SELECT rag_drop_model('local', true)");
}

# -- servers
sub create_model
{
	my ($name) = @_;
	my $address = RagLlm::origin($name);
	$node->safe_psql('postgres',
		qq{SELECT rag_create_model('$name', 'embedding', 'openai', '{"base_url": "$address",
			"model": "tiny", "timeout": 30, "api_key": {"secretRef": {"name": "llm"}}}')});
	return;
}

# A collection with a source of two documents.
sub create_collection
{
	my ($name) = @_;
	my $folder = temp_folder();
	write_file("$folder/$_.txt", "This is the text number $_.") for 1, 2;
	$node->safe_psql('postgres', qq{SELECT rag_create_collection('$name', model => '$name');
		SELECT rag_create_source('$name', 'folder', '{"path": "$folder"}',
			collection => '$name')});
	return;
}

sub chunks
{
	my ($name) = @_;
	return ask($node, "SELECT count(*) FROM rag.chunks WHERE collection = '$name'");
}

my @servers = (
	[ 'unauthorized', '28000', 'refuses the key', 'secret that api_key names' ],
	[ 'picky', '22023', 'refuses the request', 'settings of the model' ],
	[ 'missing', '08P01', 'invalid answer', 'base_url' ],
	[ 'surplus', '08P01', 'invalid answer', 'base_url' ],
	[ 'nan', '08P01', 'invalid answer', 'base_url' ],
	[ 'huge', '08P01', 'invalid answer', 'base_url' ],
	[ 'zero', '08P01', 'invalid answer', 'base_url' ],
	[ 'html', '08P01', 'invalid answer', 'base_url' ],
	[ 'json', '08P01', 'invalid answer', 'base_url' ],
	[ 'empty', '08P01', 'invalid answer', 'base_url' ],
	[ 'ragged', '08P01', 'number of dimensions|invalid answer', '.' ],
	[ 'growing', '08P01', 'changed its number of dimensions', 'another model' ]);
for my $server (@servers)
{
	my ($name, @expected) = @$server;
	create_model($name);
	create_collection($name);
	my $result = run_sql($node, "SELECT rag_sync('$name')");
	error_like($result, @expected, "$name: a sync fails");
	my $row = run_row($node, $name, 'phase, errors');
	like($row, qr/^Failed\|.*$expected[0]/, "$name: the run has the error");
	unlike($result->{err} . $result->{out} . $row, qr/\Q$key\E/, "$name: no message has the key");
	is(chunks($name), '0', "$name: nothing is stored");
}

# -- models that are dropped while they are in use
create_model('held');
create_collection('held');
my $run = start_sql($node, "SELECT rag_sync('held')");
# two requests tell the dimensions
await('the run has sent its texts', sub { RagLlm::seen('held') > 2 });
error_like(
	run_sql($node, "SET statement_timeout = '20s'; SELECT rag_drop_model('held')"),
	'2BP01', 'cannot drop model "held" because collections depend on it',
	'rag_alter_collection', 'a model that a run uses is not dropped');
$node->safe_psql('postgres', "SELECT rag_drop_source('held', keep_documents => false);
	SELECT rag_drop_collection('held'); SELECT rag_drop_model('held')");
my $ended = $run->finish;
isnt($ended->{rc}, 0, 'a run whose collection and model are dropped fails');
# it is stopped, or finds the source gone
like($ended->{err}, qr/ERROR:  (?:57P01|55000): .*source .*dropped/, 'with an error that says why');
is(chunks('held'), '0', 'a run whose model was dropped stores nothing');
is(ask($node, "SELECT count(*) FROM rag.model_usage WHERE model = 'held'"),
	'0', 'a dropped model counts nothing');

create_model('held-embed');
$run = start_sql($node, "SELECT rag_embed('number', 'held-embed') IS NOT NULL");
$run->await_waiting;
$node->safe_psql('postgres', "SELECT rag_drop_model('held-embed')");
RagLlm::heal('held');
is($run->finish->{out}, 't', 'a call that has begun ends with its vector');
is(ask($node, "SELECT count(*) FROM rag.model_usage WHERE model = 'held-embed'"),
	'0', 'and counts nothing for a model that is gone');
error_like(run_sql($node, "SELECT rag_embed('number', 'held-embed')"),
	'42704', 'model "held-embed" does not exist', 'rag_create_model', 'the next call fails');

unlike(slurp_file($node->logfile), qr/\Q$key\E/, 'the log of the server has no key');
my @calls;
await('no process is left', sub { !(@calls = engines($node, 'call')) });
$node->stop;
done_testing;
