-- How many days after the purchase are items returned, by store?
SELECT
  s_store_id, s_store_name, s_company_id, s_street_number, s_street_name, s_city, s_county,
  s_state, s_zip,
  count_if(days <= 30) AS one_month,
  count_if(days BETWEEN 31 AND 60) AS two_months,
  count_if(days BETWEEN 61 AND 90) AS three_months,
  count_if(days BETWEEN 91 AND 120) AS four_months,
  count_if(days > 120) AS longer
FROM (
  SELECT ss_store_sk, sr_returned_date_sk - ss_sold_date_sk AS days
  FROM store_sales
  JOIN store_returns
    ON sr_ticket_number = ss_ticket_number
    AND sr_item_sk = ss_item_sk
    AND sr_customer_sk = ss_customer_sk
  JOIN date_dim ON d_date_sk = sr_returned_date_sk AND d_year = 2001
)
JOIN store ON s_store_sk = ss_store_sk
GROUP BY
  s_store_id, s_store_name, s_company_id, s_street_number, s_street_name, s_city, s_county,
  s_state, s_zip
ORDER BY s_store_id, s_store_name, s_zip
LIMIT 100
