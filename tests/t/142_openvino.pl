# rag.execution_provider: ONNX Runtime and OpenVINO compute the same embeddings, and a collection
# goes on with the other one. OpenVINO is installed on request only; without it, its absence is
# tested.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use RagCluster;

my $node = rag_node('openvino', conf => "rag.model_precision = 'fp32'");
my ($library_dir) = run_command([ 'pg_config', '--pkglibdir' ]);
my $is_installed = -f "$library_dir/rag/openvino/libopenvino_c.so";
note($is_installed ? 'OpenVINO is installed' : 'OpenVINO is not installed');
my $question = 'How are the signing keys rotated?';

# The runtime that loaded the last model.
sub runtime
{
	my @loaded = slurp_file($node->logfile) =~ /loaded a model .*runtime="(\w+)"/g;
	return $loaded[-1];
}

# Sets the runtime, and waits until the engine works with it.
sub use_runtime
{
	my ($name) = @_;
	my $times = () = slurp_file($node->logfile) =~ /rag-engine: INFO ready/g;
	configure($node, 'rag.execution_provider', $name);
	$node->safe_psql('postgres', "DO \$\$ BEGIN PERFORM rag_embed('hello');
		EXCEPTION WHEN OTHERS THEN NULL; END \$\$");
	await("the engine starts again", sub {
		my $now = () = slurp_file($node->logfile) =~ /rag-engine: INFO ready/g;
		return $now > $times; });
	return;
}

# -- a collection that ONNX Runtime has embedded
use_runtime('cpu');
my $folder = temp_folder();
RagCluster::write_file("$folder/keys.txt", 'The signing keys are rotated each month.');
RagCluster::write_file("$folder/bread.txt", 'Bread is baked with flour, water and salt.');
$node->safe_psql('postgres', qq{SELECT rag_create_collection('docs');
	SELECT rag_create_source('docs', 'folder', '{"path": "$folder"}', collection => 'docs');
	CREATE TABLE one AS SELECT rag_embed('$question') AS embedding});
run_sql($node, "SELECT rag_sync('docs')");
is(runtime(), 'onnxruntime', 'ONNX Runtime computes the model');
my $fingerprint = ask($node,
	"SELECT model_fingerprint FROM rag_internal.collection WHERE name = 'docs'");

# -- the other runtime
use_runtime('openvino');
if ($is_installed)
{
	my $similarity = await('the engine works again', sub {
		my $result = run_sql($node, "SELECT 1 - (embedding <=> rag_embed('$question')) FROM one");
		return $result->{rc} == 0 && $result->{out} });
	is(runtime(), 'openvino', 'OpenVINO computes the model');
	cmp_ok($similarity, '>', 0.999, 'the embeddings are the same');
	RagCluster::write_file("$folder/bread.txt", 'Bread is sliced.');
	run_sql($node, "SELECT rag_sync('docs')");
	is( ask($node, "SELECT phase, documents_updated, documents_unchanged, chunks_embedded
			FROM rag.runs ORDER BY run_id DESC LIMIT 1"),
		'Completed|1|1|1', 'a sync embeds only what has changed');
	is(ask($node,
	"SELECT model_fingerprint FROM rag_internal.collection WHERE name = 'docs'"),
		$fingerprint, 'the fingerprint is the same');
	is( ask($node, "SELECT content FROM rag_search('$question', 'docs', mode => 'vector',
			top_k => 1)"),
		'The signing keys are rotated each month.',
		'a search finds what was embedded by the other runtime');
	$node->safe_psql('postgres', "SET rag.model_precision = 'int8'; SELECT rag_embed('hello')");
	is(runtime(), 'onnxruntime', 'ONNX Runtime computes models in 8 bits');
}
else
{
	my $result = await('SQLSTATE 58P01', sub {
		my $result = run_sql($node, "SELECT rag_embed('hello')");
		return $result->{err} =~ /ERROR:  58P01/ && $result });
	error_like($result, '58P01', 'could not find OpenVINO at "[^"]*libopenvino_c.so"',
		'make install WITH_OPENVINO=1', 'OpenVINO is required and not installed');
	my $sync = run_sql($node, "SELECT rag_sync('docs')");
	error_like($sync, '58P01', 'could not find OpenVINO', 'rag.execution_provider',
		'a sync fails, too');
	is(ask($node, "SELECT count(*) FROM rag.chunks WHERE collection = 'docs'"),
		'2', 'what is stored stays');
	my $search = run_sql($node,
		"SELECT content FROM rag_search('rotated keys', 'docs', top_k => 1)");
	is($search->{out}, 'The signing keys are rotated each month.', 'a search uses keywords');
	is(run_sql($node, "SET rag.model_precision = 'int8'; SELECT rag_embed('hello')")->{rc},
		0, 'models in 8 bits need no OpenVINO');
}

# -- automatically
use_runtime('auto');
await('the engine works again', sub { run_sql($node, "SELECT rag_embed('hello')")->{rc} == 0 });
my $has_bf16 = slurp_file('/proc/cpuinfo') =~ /\bavx512_bf16\b/;
is(runtime(), $is_installed && $has_bf16 ? 'openvino' : 'onnxruntime',
	'auto is OpenVINO where it is installed and the processor has bfloat16');
my $wrong = run_sql($node, "ALTER SYSTEM SET rag.execution_provider = 'tensorrt'");
error_like($wrong, '22023', 'invalid value for parameter "rag.execution_provider"',
	'Available values: auto, cpu, cuda, openvino',
	'another value of rag.execution_provider is rejected');

$node->stop;
done_testing;
