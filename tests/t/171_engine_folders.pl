# Folders that the engine may read: pipes in them, folders that are forgotten with their models,
# links that are turned, and the data directory.
use strict;
use warnings;
use POSIX qw(mkfifo);
use PostgreSQL::Test::Utils;
use Test::More;
use RagCluster;

my $node   = rag_node('engine_folders', conf => "rag.scheduler = off\n");
my $tiny   = "$ENV{RAG_TEST_FILES}/models/modernbert";
my $root   = temp_folder();
my $noted  = $node->data_dir . '/pg_rag/model_folders';

sub noted { return -e $noted ? slurp_file($noted) : '' }

sub model_in
{
	my ($folder) = @_;
	system('cp', '-R', $tiny, $folder) == 0 or die;
	return $folder;
}

sub create
{
	my ($name, $folder) = @_;
	return run_sql($node,
		"SELECT rag_create_model('$name', 'embedding', 'local', '{\"path\": \"$folder\"}')");
}

sub embed
{
	my ($name) = @_;
	return run_sql($node, "SET statement_timeout = '60s';
		SELECT cardinality(rag_embed('hello', model => '$name')::real[])");
}

sub replace_by_pipe
{
	my ($file) = @_;
	unlink $file or die "$file: $!";
	mkfifo($file, 0600) or die "$file: $!";
	return;
}

# -- pipes
# ----------------------------------------

my ($graph) = map { m{([^/]+)$} } sort glob "$tiny/*.onnx";
for my $file ('config.json', 'tokenizer.json', $graph)
{
	my $folder = model_in("$root/$file");
	replace_by_pipe("$folder/$file");
	my ($name) = $file =~ /^([a-z]+)/;
	my $result = create("pipe-$name", $folder);
	$result = embed("pipe-$name") if $result->{rc} == 0;
	isnt($result->{rc}, 0, "$file is a pipe");
	like($result->{err}, qr/$file/, "the error names $file");
	unlike($result->{err}, qr/timeout/, "nothing has waited for $file");
}
is(run_sql($node, "SELECT cardinality(rag_embed('hello')::real[])")->{out},
	'384', 'the engine goes on');
unlike(noted(), qr/\.json|\.onnx/, 'folders of models that were refused are not kept');

# -- folders of models
# ----------------------------------------

my $folder = model_in("$root/first");
symlink $folder, "$root/link" or die;
create('first', "$root/link");
is(embed('first')->{out}, '24', 'a folder by a link');
like(noted(), qr/^\Q$folder\E$/m, 'the folder is noted, not the link');
run_sql($node, "SELECT rag_drop_model('first')");
unlike(noted(), qr/first/, 'it is forgotten with its model');

my $moved = model_in("$root/moved");
create('moved', $moved);
is(embed('moved')->{out}, '24', 'a model in another folder embeds');
rename $moved, "$root/elsewhere" or die;
mkdir "$root/secret" or die;
write_file("$root/secret/config.json", 'a secret');
symlink "$root/secret", $moved or die;
$node->restart;
my $engine = engine_pid($node, 'embed');
my $arguments = slurp_file("/proc/$engine/cmdline");
unlike($arguments, qr/moved|secret/, 'a link that was put in its place is not followed');

# -- the data directory
# ----------------------------------------

my $inside = model_in($node->data_dir . '/models');
my $refused = create('inside', $inside);
$refused = embed('inside') if $refused->{rc} == 0;
error_like($refused, '22023', 'because it is in the data directory',
	undef, 'a folder in the data directory');
unlike(noted(), qr/models$/m, 'it is not noted');

$node->stop;
done_testing;
