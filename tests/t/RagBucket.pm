# A server on loopback that speaks the protocol of S3 for the files below a folder. It computes each
# signature again, and refuses what S3 refuses.
package RagBucket;

use strict;
use warnings;

use Digest::MD5 qw(md5_hex);
use Digest::SHA qw(hmac_sha256 hmac_sha256_hex sha256_hex);
use Exporter 'import';
use File::Find ();
use IO::Socket::INET;
use POSIX ();
use PostgreSQL::Test::Utils ();
use RagCluster;

our @EXPORT = qw(bucket_server bucket_requests);

our $KEY_ID = 'AKIDEXAMPLE';
our $SECRET_KEY = 'wJalrXUtnFEMI+bPxRfiCYEXAMPLEKEY';
our $REGION = 'us-east-1';
my ($log, @servers);

END { local $?; kill 'TERM', @servers if @servers }

# Serves the files below a folder as the bucket "docs", with that many keys in a page, until the
# test ends. Gives the URL of the server.
sub bucket_server
{
	my ($folder, $page) = @_;
	$log //= temp_folder() . '/requests';
	my $listener = IO::Socket::INET->new(Listen => 16, LocalAddr => '127.0.0.1', Proto => 'tcp')
	  or die "no socket: $!";
	my $parent = $$;
	my $pid = fork // die "no process: $!";
	if ($pid == 0)
	{
		local $SIG{PIPE} = 'IGNORE';
		local $SIG{ALRM} = sub { getppid() == $parent or POSIX::_exit(0); alarm 1 };
		alarm 1;
		while (1)
		{
			my $connection = $listener->accept or next;
			_answer($connection, $folder, $page // 1000);
			close $connection;
		}
	}
	push @servers, $pid;
	return 'http://127.0.0.1:' . $listener->sockport;
}

# The requests since the last call, with their statuses, sorted.
sub bucket_requests
{
	open my $file, '<', $log or return [];
	my @lines = sort map { s/\n//r } readline $file;
	unlink $log;
	return \@lines;
}

sub _answer
{
	my ($connection, $folder, $page) = @_;
	my ($method, $target) = (readline($connection) // '') =~ m{^(\w+) (\S+) } or return;
	my %headers;
	while (defined(my $line = readline $connection))
	{
		last if $line =~ /^\r?\n/;
		$headers{ lc $1 } = $2 if $line =~ /^([^:]+): (.*?)\r?\n/;
	}
	my ($path, $query) = split /\?/, $target, 2;
	my ($status, $body, $more) = _refuse($method, $path, $query // '', \%headers);
	if (!$status)
	{
		my ($key) = $path =~ m{^/docs/(.*)$};
		my %query = map { /(.*?)=(.*)/ ? ($1 => _decoded($2)) : () } split /&/, $query // '';
		($status, $body, $more) = !defined $key ? _refusal('404 Not Found', 'NoSuchBucket')
		  : $key eq '' ? _list($folder, $page, %query)
		  : _object($folder, _decoded($key));
	}
	open my $file, '>>', $log or die $!;
	print $file "$path " . ($status =~ s/ .*//r) . "\n";
	close $file;
	print $connection "HTTP/1.1 $status\r\n", $more // '', 'Content-Length: ', length $body,
	  "\r\nConnection: close\r\n\r\n$body";
	return;
}

# Nothing if a request is signed as it should be.
sub _refuse
{
	my ($method, $path, $query, $headers) = @_;
	my $authorization = $headers->{authorization} // '';
	my ($id, $scope, $names, $signature) = $authorization =~
	  m{^AWS4-HMAC-SHA256 Credential=(\w+)/(\S+), SignedHeaders=([\w;-]+), Signature=(\w+)$}
	  or return _refusal('403 Forbidden', 'AccessDenied');
	$id eq $KEY_ID or return _refusal('403 Forbidden', 'InvalidAccessKeyId');
	my $time = $headers->{'x-amz-date'} // '';
	my $day = substr $time, 0, 8;
	my $now = POSIX::strftime('%Y%m%d', gmtime);
	$day eq $now or return _refusal('403 Forbidden', 'RequestTimeTooSkewed');
	$scope eq "$day/$REGION/s3/aws4_request"
	  or return _refusal('400 Bad Request', 'AuthorizationHeaderMalformed',
		"<Region>$REGION</Region>");
	my $signed = join '', map { "$_:" . ($headers->{$_} // '') . "\n" } split /;/, $names;
	my $canonical = join "\n", $method, $path, join('&', sort split /&/, $query), $signed, $names,
	  $headers->{'x-amz-content-sha256'} // '';
	my $text = join "\n", 'AWS4-HMAC-SHA256', $time, $scope, sha256_hex($canonical);
	my $key = "AWS4$SECRET_KEY";
	$key = hmac_sha256($_, $key) for split m{/}, $scope;
	return if hmac_sha256_hex($text, $key) eq $signature;
	return _refusal('403 Forbidden', 'SignatureDoesNotMatch');
}

sub _refusal
{
	my ($status, $code, $more) = @_;
	$more //= '';
	return ($status, "<Error><Code>$code</Code><Message>Refused.</Message>$more</Error>");
}

sub _list
{
	my ($folder, $page, %query) = @_;
	($query{'list-type'} // '') eq '2' or return _refusal('400 Bad Request', 'InvalidArgument');
	my @keys;
	File::Find::find(
		{
			no_chdir => 1,
			wanted => sub { push @keys, substr $_, length($folder) + 1 if -f $_ }
		},
		$folder);
	my ($prefix, $after) = ($query{prefix} // '', $query{'continuation-token'} // '');
	@keys = sort grep { index($_, $prefix) == 0 && $_ gt $after } @keys;
	my $body = '<EncodingType>url</EncodingType>';
	for my $key (@keys[ 0 .. ($#keys < $page - 1 ? $#keys : $page - 1) ])
	{
		my $bytes = PostgreSQL::Test::Utils::slurp_file("$folder/$key");
		$body .= sprintf '<Contents><Key>%s</Key><ETag>&quot;%s&quot;</ETag>'
		  . '<Size>%d</Size></Contents>', _encoded($key), md5_hex($bytes), length $bytes;
	}
	$body .= '<IsTruncated>true</IsTruncated><NextContinuationToken>' . _encoded($keys[ $page - 1 ])
	  . '</NextContinuationToken>' if @keys > $page;
	return ('200 OK', "<?xml version=\"1.0\"?><ListBucketResult>$body</ListBucketResult>");
}

sub _object
{
	my ($folder, $key) = @_;
	-f "$folder/$key" or return _refusal('404 Not Found', 'NoSuchKey');
	my $bytes = PostgreSQL::Test::Utils::slurp_file("$folder/$key");
	return ('200 OK', $bytes, "Content-Type: binary/octet-stream\r\n");
}

sub _decoded { return $_[0] =~ s/%([0-9A-Fa-f]{2})/chr hex $1/ger }
sub _encoded { return $_[0] =~ s/([^\w.\/-])/sprintf '%%%02X', ord $1/ger }

1;
