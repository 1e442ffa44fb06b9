# The processes of rag-engine can reach only what they need, and neither the key file nor PG_VERSION
# nor the server's socket. A model can be in any folder that a superuser names.
use strict;
use warnings;
use File::Basename qw(dirname);
use File::Temp ();
use IPC::Run ();
use JSON::PP qw(encode_json);
use PostgreSQL::Test::Utils qw(slurp_file);
use Test::More;
use RagCluster;

my $node = rag_node('sandbox');
my $data = $node->data_dir;
$node->safe_psql('postgres',
	"SELECT rag_create_secret('token', 'a value'); SELECT rag_embed('hello')");
my $embed = engine_pid($node, 'embed');
my ($program, undef, @arguments) = split /\0/, slurp_file("/proc/$embed/cmdline");
my $docs = write_documents(temp_folder(), 1, 1);
my @secret = (
	'PG_VERSION', 'pg_rag/secret.key', 'global/pg_control', 'postgresql.auto.conf',
	'pg_wal', "$docs/doc-001.md");

# Returns the attempts on files and other resources that the sandbox of a process allows.
sub allowed
{
	my ($process, $options, $job, @files) = @_;
	my $in = File::Temp->new;
	print $in $job;
	$in->close;
	my @command = ($program, 'sandbox-check', $process, @$options, @files);
	my ($out, $err) = ('', '');
	IPC::Run::run([ 'sh', '-c', 'cd "$0" && exec "$@"', $data, @command ],
		'<', $in->filename, '>', \$out, '2>', \$err)
	  or die "sandbox-check $process: $err";
	if ($out =~ /^(missing: .*)/m)
	{
		diag("the kernel does not support the sandbox: $1");
		done_testing();
		exit;
	}
	like($out, qr/^\Q$_\E: Permission denied/m, "$process cannot: $_")
	  for 'Unix socket', 'other program';
	return [ map { /^(.*): allowed$/ ? $1 : () } split /\n/, $out ];
}

# the sandbox of the running process
my @options;
while (my ($option, $value) = splice @arguments, 0, 2)
{
	next
	  if $option eq '--watch-stdin' and unshift(@arguments, $value)
	  or $option !~ /^--(onnxruntime|model-dir|sandbox)$/;
	push @options, $option, $value;
}
my %options = @options;
is($options{'--sandbox'}, 'on', 'embed is sandboxed by default');
my $model = "$options{'--model-dir'}/all-MiniLM-L6-v2/config.json";
is_deeply(
	allowed('embed', \@options, '', @secret, $model),
	[ "read $model", 'own program' ],
	'embed can read models only');
is_deeply(allowed('extract', [], '', @secret, $model), [], 'extract can read nothing');
is_deeply(
	allowed('call', [], '', @secret, $model, '/etc/hosts'),
	[ 'read /etc/hosts', 'internet socket', 'listening socket' ],
	'call can read settings of the resolver only, and can use the network');
mkdir "$data/pg_rag/work";
write_file("$data/pg_rag/work/7-docs/page", 'a page');
my $job = encode_json(
	{
		source =>
		  { kind => 'folder', path => $docs, filter => { paths => [], excludePaths => [] } },
		known => {},
		splitting => { chunk_size => 10, chunk_overlap => 0 },
		tokens => { tokenizer => dirname($model) },
		model_dir => dirname($model),
		work_dir => 'pg_rag/work/7-docs',
		clones => { dir => 'pg_rag/clones', max_bytes => 0, max_clone_bytes => 0 },
		credentials => undef,
		network => { allowed_private_hosts => [], proxy => undef },
		limits => {
			max_file_bytes => 1,
			memory_bytes => undef,
			cpu_seconds => undef,
			file_size_bytes => undef,
			wall_seconds => undef
		}
	});
is_deeply(
	allowed('ingest', [], $job, @secret, 'pg_rag/work/7-docs/page', $model),
	[
		"read $docs/doc-001.md",
		map({ "$_ pg_rag/work/7-docs/page" . ($_ eq 'write' ? '.new' : '') } qw(read write)),
		"read $model",
		'internet socket',
		'listening socket',
		'own program'
	],
	'ingest can read its source and write to its own folder, and use the network');

# -- models in other folders
# ----------------------------------------

my $elsewhere = temp_folder() . '/model';
system('cp', '-R', dirname($model), $elsewhere) == 0 or die;
my $here = "SET rag.model_dir = '$elsewhere'; SELECT rag_functions.vector_dims(rag_embed('hello'))";
is(run_sql($node, $here)->{out}, '384', 'rag.model_dir of a session can name another folder');
my $next = engine_pid($node, 'embed');
isnt($next, $embed, 'another model folder restarts the engine');
is(slurp_file("$data/pg_rag/model_folders"), "$elsewhere\n", 'another model folder is recorded');
is( run_sql($node, $here)->{out}
	  . $node->safe_psql('postgres', "SELECT rag_functions.vector_dims(rag_embed('hello'))"),
	'384384',
	'both models can be used');
is(engine_pid($node, 'embed'), $next, 'the engine is not restarted again for known folders');
$node->restart;
is(run_sql($node, $here)->{out},
	'384', 'a recorded model folder can be used after a restart of the server');
unlike(slurp_file($node->logfile), qr/rag-engine exited/, 'no engine has exited with an error');
$next = engine_pid($node, 'embed');

# another folder that replaces a known one
rename $elsewhere, "$elsewhere.old" or die $!;
system('cp', '-R', "$elsewhere.old", $elsewhere) == 0 or die;
my $replaced =
  await('the model that was put in its place is loaded', sub { run_sql($node, $here)->{out} });
is($replaced, '384', 'a replaced model folder can be used');

# the engine gets no access to a folder that is not a model folder
error_like(
	run_sql($node, "SET rag.model_dir = '$data'; SELECT rag_embed('hello')"),
	'58P01', 'config.json|tokenizer.json|model',
	undef, 'the data directory is rejected as model folder');
symlink "$elsewhere/$_", "$data/$_" for qw(tokenizer.json model_int8.onnx);
write_file("$data/config.json", slurp_file("$elsewhere/config.json"));
error_like(
	run_sql($node, "SET rag.model_dir = '$data'; SELECT rag_embed('hello')"),
	'22023',
	'because it is in the data directory, or contains it',
	undef,
	'the data directory is rejected as model folder if it contains a model');
unlink "$data/$_" for qw(config.json tokenizer.json model_int8.onnx);
is(slurp_file("$data/pg_rag/model_folders"),
	"$elsewhere\n", 'the data directory is not recorded as model folder');

# -- the setting
# ----------------------------------------

for my $mode ([ 'required', 2 ], [ 'off', 0 ], [ 'on', 2 ])
{
	my $before = engine_pid($node, 'embed');
	configure($node, 'rag.sandbox', $mode->[0]);
	my $pid = await("the engine runs with $mode->[0]",
		sub { my ($pid) = engines($node, 'embed'); $pid && $pid != $before && $pid });
	is( await(
			'an answer',
			sub { run_sql($node, "SELECT rag_functions.vector_dims(rag_embed('hello'))")->{out} }),
		'384',
		"rag_embed works with rag.sandbox = $mode->[0]");
	like(slurp_file("/proc/$pid/status"), qr/^Seccomp:\s+$mode->[1]$/m,
		$mode->[1]
		? 'confined'
		: "the engine has the expected confinement with rag.sandbox = $mode->[0]");
}
is(slurp_file($node->logfile) =~ s/.*WARN The kernel//rs =~ /^ does not/ ? 'lacks' : 'has',
	'has', 'the kernel supports everything that the sandbox needs');

$node->stop;
done_testing();
