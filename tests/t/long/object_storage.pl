# Sources in object storage against servers that others wrote: moto for S3, Azurite for Azure, and
# the PyPI package gcp-storage-emulator for Google. RAG_TEST_MOTO, RAG_TEST_AZURITE and
# RAG_TEST_GCS_EMULATOR name their programs. The part of one that is not named is skipped.
use strict;
use warnings;
use Digest::SHA qw(hmac_sha256_base64);
use HTTP::Tiny;
use MIME::Base64 qw(decode_base64);
use POSIX qw(WNOHANG strftime);
use Test::More;
use RagCluster;

my $http = HTTP::Tiny->new(timeout => 60);
my @servers;
END { local $?; kill 'TERM', @servers if @servers }

# Starts a program with these arguments, in which PORT and FOLDER are replaced. Gives its URL.
sub start_server
{
	my ($program, @arguments) = @_;
	my $port = PostgreSQL::Test::Cluster::get_free_port();
	my $folder = temp_folder();
	s/PORT/$port/, s/FOLDER/$folder/ for @arguments;
	my $pid = fork // die $!;
	if ($pid == 0)
	{
		open STDOUT, '>', '/dev/null';
		open STDERR, '>', '/dev/null';
		exec $program, @arguments;
		die "cannot execute $program: $!";
	}
	push @servers, $pid;
	my $url = "http://127.0.0.1:$port";
	await(
		"$program answers",
		sub {
			die "$program has ended" if waitpid $pid, WNOHANG;
			return $http->get($url)->{status} != 599;
		});
	return $url;
}

sub put
{
	my ($url, $content, %headers) = @_;
	%headers = ('Content-Length' => length $content, %headers);
	my $answer = $http->put($url, { content => $content, headers => \%headers });
	$answer->{success} or die "$url: $answer->{status} $answer->{content}";
	return;
}

my $node = rag_node('object_storage_servers',
	conf => "rag.allowed_private_hosts = '127.0.0.1'\nrag.scheduler = off");
my %texts = map { $_ => "# Title of $_\n\n" . paragraph($_) } 'a.md', 'guides/b c+d.md',
  'guides/ü%25.md', 'guides/two//slashes.md';
my @keys = sort keys %texts;

# A key as a part of a URL.
sub encoded { return $_[0] =~ s/([^\w.\/-])/sprintf '%%%02X', ord $1/ger }

# Checks that a source finds all objects, and that a second sync fetches none.
sub reads_all
{
	my ($kind, $spec, $secret) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $credentials = $secret ? ", credentials => '$secret'" : '';
	$node->safe_psql('postgres',
		"SELECT rag_create_source('$kind', '$kind', '$spec', suspend => true$credentials)");
	sync_ok($node, $kind, "$kind is synced");
	is(run_row($node, $kind, 'documents_added, documents_failed'),
		scalar(@keys) . '|0', "$kind has all objects");
	is( ask($node, "SELECT string_agg(metadata ->> 'path', '|' ORDER BY metadata ->> 'path'
			COLLATE \"C\") FROM rag.documents WHERE source = '$kind'"),
		join('|', @keys), "$kind has their keys");
	sync_ok($node, $kind, "$kind is synced again");
	is(run_row($node, $kind, 'documents_unchanged, bytes_fetched'),
		scalar(@keys) . '|0', "$kind fetches nothing again");
	return;
}

SKIP:
{
	my $program = $ENV{RAG_TEST_MOTO} or skip 'RAG_TEST_MOTO is not set', 5;
	my $url = start_server($program, '-H', '127.0.0.1', '-p', 'PORT');
	put("$url/docs", '');
	put("$url/docs/" . encoded($_), $texts{$_}) for @keys;
	$node->safe_psql('postgres', "SELECT rag_create_secret('s3', 'id', 'username');
		SELECT rag_create_secret('s3', 'word/+', 'password')");
	reads_all('s3', "{\"bucket\": \"docs\", \"endpoint\": \"$url\"}", 's3');
}

SKIP:
{
	my $program = $ENV{RAG_TEST_AZURITE} or skip 'RAG_TEST_AZURITE is not set', 5;
	# the account and key that the emulator has for everybody
	my $account = 'devstoreaccount1';
	my $key = 'Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr'
	  . '/KBHBeksoGMGw==';
	my $url = start_server($program, '--blobHost', '127.0.0.1', '--blobPort', 'PORT',
		'--location', 'FOLDER', '--silent', '--skipApiVersionCheck', '--disableTelemetry');
	my $send = sub {
		my ($path, $query, $content, %headers) = @_;
		my $date = strftime('%a, %d %b %Y %H:%M:%S GMT', gmtime);
		%headers = (%headers, 'x-ms-date' => $date, 'x-ms-version' => '2023-11-03');
		my $length = length($content) || '';
		my $signed = join '', map { "$_:$headers{$_}\n" } sort keys %headers;
		my $type = 'application/octet-stream';
		my $text = "PUT\n\n\n$length\n\n$type\n\n\n\n\n\n\n${signed}/$account/$account$path"
		  . join '', map { "\n$_->[0]:$_->[1]" } @$query;
		my $signature = hmac_sha256_base64($text, decode_base64($key));
		$signature .= '=' while length($signature) % 4;
		put("$url/$account$path?" . join('&', map { "$_->[0]=$_->[1]" } @$query),
			$content, %headers, 'Content-Type' => $type,
			Authorization => "SharedKey $account:$signature");
	};
	$send->('/docs', [ [ 'restype', 'container' ] ], '');
	$send->('/docs/' . encoded($_), [], $texts{$_}, 'x-ms-blob-type' => 'BlockBlob') for @keys;
	$node->safe_psql('postgres', "SELECT rag_create_secret('azure', '$key')");
	reads_all('azblob', "{\"account\": \"$account\", \"container\": \"docs\",
		\"endpoint\": \"$url/$account\"}", 'azure');
}

SKIP:
{
	my $program = $ENV{RAG_TEST_GCS_EMULATOR} or skip 'RAG_TEST_GCS_EMULATOR is not set', 5;
	my $url = start_server($program, 'start', '--host', '127.0.0.1', '--port', 'PORT',
		'--in-memory', '--default-bucket', 'docs');
	for my $key (@keys)
	{
		my $name = $key =~ s/([^\w.-])/sprintf '%%%02X', ord $1/ger;
		my $answer = $http->post("$url/upload/storage/v1/b/docs/o?uploadType=media&name=$name",
			{ content => $texts{$key}, headers => { 'Content-Type' => 'text/markdown' } });
		$answer->{success} or die "$key: $answer->{status} $answer->{content}";
	}
	reads_all('gcs', "{\"bucket\": \"docs\", \"endpoint\": \"$url\"}");
}

done_testing();
